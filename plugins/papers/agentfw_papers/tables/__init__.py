"""Tables of the value of each choice in each state: a policy that follows one, and a learner that makes one."""
