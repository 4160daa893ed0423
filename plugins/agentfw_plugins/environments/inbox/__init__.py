"""The inbox: an assistant writes a document, and mails arrive meanwhile.

settings    how long a day is, how often mails come, what everything takes
library     the documents and mails that there are
mails       one day's mails: when each comes, and what becomes of it
scoring     what it is worth
triage      a plain assistant, which the `scripted` policy follows
desk        the environment itself
"""

from agentfw_plugins.environments.inbox.desk import Inbox
from agentfw_plugins.environments.inbox.settings import InboxSettings

__all__ = ["Inbox", "InboxSettings"]
