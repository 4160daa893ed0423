"""The kitchen: an agent cooks and tutors a pupil on one clock."""
