"""What programs send besides what their user typed: who the user is, which session it is, and what is context.

`programs.py` has the profiles that ship. A further one is a class that derives from `Profile`, named by its
distribution in a group of entry points. It comes before those that ship:

    [project.entry-points."agentfw.profiles"]
    my-agent = "my_package.profile:MyAgent"
"""

from .profile import Profile, Sent, Told, typed
from .programs import profiles, told_by

__all__ = ["Profile", "Sent", "Told", "profiles", "told_by", "typed"]
