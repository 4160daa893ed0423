"""Time-aware generation: problems to solve within a budget of tokens, which is time."""

from .environment import Budget
from .settings import BudgetSettings

__all__ = ["Budget", "BudgetSettings"]
