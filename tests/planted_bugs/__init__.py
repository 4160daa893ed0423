"""Components with one bug each, and the promise of their contract that has to notice it.

for bug in PLANTED:
    print(bug.kind, bug.name, bug.what, bug.promise)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import acting, learning, memories, watching
from .acting import changed

__all__ = ["GOOD", "PLANTED", "Planted"]


class Planted(NamedTuple):
    kind: str
    make: Callable[[], Any]
    what: str
    """What is wrong with it."""
    promise: str
    """The check that has to fail, by its name."""

    @property
    def name(self) -> str:
        return str(getattr(self.make, "__name__", ""))


GOOD: list[tuple[str, Callable[[], Any]]] = [
    ("environment", acting.Counter),
    ("policy", acting.Parrot),
    ("tool", acting.Box),
    ("memory", memories.Notebook),
    ("memory", memories.Shelf),
    ("memory", memories.Ears),
    ("reward", learning.Turns),
    ("optimizer", learning.Centred),
    ("learner", learning.Writer),
    ("learner", learning.Unigram),
    ("tracker", watching.Lines),
    ("tracker", watching.Table),
    ("tracker", watching.Timing),
    ("hook", watching.Sundays),
    ("plugin", watching.Diary),
    ("command", lambda: watching.count),
]


def _given(command: object) -> Callable[[], Any]:
    """A factory of what is there already."""

    def make() -> Any:
        return command

    make.__name__ = str(getattr(command, "name", None) or getattr(command, "__name__", ""))
    return make


_BUGS: dict[str, list[tuple[Callable[[], Any], str, str]]] = {
    "environment": [
        (acting.TwoActions, "two actions of one name", "the_brief_can_be_read"),
        (acting.BadSchema, "requires an argument that its schema doesn't have", "the_brief_can_be_read"),
        (acting.FewTasks, "three tasks, however many are asked for", "tasks_are_as_many_as_asked"),
        (acting.OneIndex, "all tasks have one index", "tasks_are_as_many_as_asked"),
        (acting.RandomTasks, "other tasks each time", "tasks_are_as_many_as_asked"),
        (acting.SameTasks, "tests on the tasks of the training", "training_and_test_differ"),
        (acting.Unseeded, "a generator without a seed", "one_seed_gives_one_episode"),
        (acting.Shared, "state of an episode in the class", "episodes_do_not_touch_each_other"),
        (acting.SmallSeeds, "fails for large seeds", "any_seed_will_do"),
        (acting.Crashing, "IndexError for a number out of range", "nonsense_is_refused"),
        (acting.Gullible, "carries out actions that don't exist", "nonsense_is_refused"),
        (acting.Tuples, "tuples in what is observed", "the_record_comes_back_equal"),
        (acting.Headless, "an outcome without its headline", "the_headline_is_there"),
        (acting.BadFigure, "NaN in the outcome", "the_headline_is_there"),
        (acting.OtherReferences, "references that differ each time", "references_can_be_set_beside"),
        (acting.HeadlessReferences, "references without the headline", "references_can_be_set_beside"),
        (acting.Deaf, "a reflex that raises", "every_interface_will_do"),
        (acting.BadDemonstration, "demonstrates an action that doesn't exist", "the_demonstration_works"),
    ],
    "policy": [
        (acting.Wordless, "answers with text instead of a Generation", "it_answers"),
        (acting.OneAtATime, "fails when asked twice at once", "each_request_gets_its_own_answer"),
        (acting.Mixing, "takes the prompt of another request", "each_request_gets_its_own_answer"),
        (acting.Dice, "ignores the seed", "one_seed_gives_one_answer"),
        (acting.FirstTurnOnly, "fails in the second turn", "it_goes_on_with_a_conversation"),
        (changed(logprobs=(-0.5,)), "one logprob for three tokens", "tokens_and_logprobs_agree"),
        (changed(logprobs=(0.5, 0.5, 0.5)), "probabilities instead of logprobs", "tokens_and_logprobs_agree"),
        (changed(prompt_ids=()), "tokens without those of the prompt", "tokens_and_logprobs_agree"),
        (changed(text="abcd"), "pieces that don't make the text", "pieces_make_the_text"),
        (
            changed(token_ids=(1, 2, 3), logprobs=(-1, -1, -1), pieces=()),
            "ignores the maximum number of tokens",
            "it_keeps_to_the_limit",
        ),
        (acting.Scribbling, "appends to the request", "the_request_stays_as_it_is"),
        (acting.BackInTime, "an answer takes less than no time", "its_time_is_a_time"),
    ],
    "tool": [
        (acting.Empty, "a box without tools", "it_opens_into_tools"),
        (acting.Twins, "two tools of one name", "it_opens_into_tools"),
        (acting.Nameless, "a tool without a description", "it_opens_into_tools"),
        (acting.Offline, "always fails", "its_examples_succeed"),
        (acting.SpeaksNot, "answers without a word", "its_examples_succeed"),
        (acting.OneAfterTheOther, "fails when called twice at once", "its_examples_succeed"),
        (acting.Takes, "takes arguments that don't fit", "wrong_arguments_are_answered"),
    ],
    "memory": [
        (memories.NeedsNotes, "fails while it is empty", "an_empty_memory_answers"),
        (memories.Unbounded, "ignores the limit", "it_keeps_to_the_limit"),
        (memories.Appending, "learns an episode twice", "learning_twice_is_learning_once"),
        (memories.OneFileForAllRuns, "one file for all runs", "two_runs_are_strangers"),
        (memories.NeverForgets, "keeps counting after an interruption", "a_broken_off_attempt_is_forgotten"),
        (memories.Drafts, "keeps the drafts of an interrupted episode", "a_broken_off_attempt_is_forgotten"),
        (memories.SingleUser, "fails for a second user", "other_users_do_no_harm"),
        (memories.OneForAll, "shows everybody everything", "users_do_not_see_each_other"),
        (memories.OneFileForTwo, "one file for users of similar names", "users_do_not_overwrite_each_other"),
        (memories.NeverWrites, "keeps nothing after a restart", "a_restart_changes_nothing"),
        (memories.DeafAfterwards, "keeps nothing that it heard after a restart", "a_restart_changes_nothing"),
        (memories.WorstFirst, "worst match first", "the_best_match_comes_first"),
        (memories.CutsBeforeSorting, "cuts to the limit before it sorts", "the_best_match_comes_first"),
        (memories.ForgetsNothing, "forget(user) forgets nothing", "forgetting_a_user_is_complete"),
        (memories.ForgetsEverybody, "forget(user) forgets everybody", "forgetting_a_user_is_complete"),
        (memories.ForgetsUntilTheRestart, "what was forgotten is back", "forgetting_a_user_is_complete"),
        (memories.OneVector, "one vector for several texts", "it_embeds_each_text"),
        (memories.NotANumber, "NaN for an empty text", "it_embeds_each_text"),
        (memories.Doubling, "hears a saying twice", "hearing_twice_is_hearing_once"),
        (memories.Oldest, "shows the oldest first", "what_it_remembers_is_the_newest_first"),
        (memories.Stubborn, "a correction changes nothing", "what_is_corrected_is_replaced"),
        (memories.Keeping, "what was deleted stays", "what_is_deleted_is_gone"),
        (memories.Public, "shows a user the items of others", "users_change_only_their_own"),
        (memories.CStrings, "fails for a NUL in a text", "any_text_will_do"),
        (memories.LastTurnOnly, "fails for an episode without turns", "odd_episodes_will_do"),
        (memories.Locking, "a lock that a second one meets", "two_at_once_will_do"),
        (memories.BadTools, "two tools of one name", "its_tools_can_be_offered"),
        (memories.BrokenTool, "a tool that always fails", "its_tools_work"),
    ],
    "reward": [
        (learning.NoNumber, "scores that are NaN", "scores_can_be_used"),
        (learning.Elsewhere, "scores another episode", "scores_can_be_used"),
        (learning.OffTrack, "a track that doesn't exist", "scores_can_be_used"),
        (learning.Moody, "other scores each time", "the_same_gets_the_same"),
        (learning.Comparing, "division by zero for a single sample", "a_group_of_one_will_do"),
        (learning.FirstTurn, "fails for an episode without turns", "odd_episodes_will_do"),
        (learning.EmptyAnswers, "division by zero for an empty answer", "odd_episodes_will_do"),
        (learning.Announcing, "announces other components", "its_components_are_those_announced"),
        (learning.FirstIsBest, "scores by the place in the group", "the_order_of_samples_does_not_matter"),
        (learning.Tidying, "deletes events", "episodes_stay_as_they_are"),
    ],
    "optimizer": [
        (learning.Beyond, "advantages of turns that don't exist", "advantages_can_be_used"),
        (learning.Doubled, "two advantages for a turn", "advantages_can_be_used"),
        (learning.Indifferent, "advantages that are all 0", "advantages_can_be_used"),
        (learning.Reversed, "the sign is reversed", "better_samples_fare_better"),
        (learning.OwnSample, "a baseline with its own sample in it", "a_sample_is_not_in_its_own_baseline"),
        (learning.FirstAsBaseline, "the first sample is the baseline", "the_order_of_samples_does_not_matter"),
        (learning.LastTurnLost, "no advantage for the last turn", "no_turn_is_left_out"),
        (learning.RemembersUsers, "can't forget the users in its state", "a_user_is_forgotten"),
        (learning.ClaimsToForget, "forget(user) forgets nothing", "a_user_is_forgotten"),
        (learning.Dividing, "division by zero for equal rewards", "equal_rewards_will_do"),
        (learning.Sampling, "division by zero for a single sample", "a_group_of_one_will_do"),
        (learning.Squaring, "small rewards underflow", "great_and_tiny_rewards_will_do"),
        (learning.FirstOnly, "fails without scores", "episodes_without_turns_or_scores_will_do"),
        (learning.PerToken, "division by zero for an empty answer", "episodes_without_turns_or_scores_will_do"),
        (learning.FirstOnly, "fails without groups", "nothing_gives_nothing"),
        (learning.Amnesic, "restores nothing", "it_goes_on_where_it_was"),
        (learning.SecretState, "a state that is no JSON", "it_goes_on_where_it_was"),
        (learning.Noisy, "other advantages each time", "the_same_gets_the_same"),
        (learning.Insatiable, "never has enough groups", "it_stops_asking_for_groups"),
        (learning.Fractional, "wants half a group", "it_stops_asking_for_groups"),
    ],
    "learner": [
        (learning.Promising, "names an adapter that isn't there", "an_update_gives_an_adapter"),
        (learning.Uphill, "a step in the wrong direction", "what_was_good_becomes_likelier"),
        (learning.Stray, "writes outside its folder", "what_was_there_stays"),
        (learning.Overwriting, "changes earlier adapters", "what_was_there_stays"),
        (learning.OneVersion, "one version for all updates", "what_was_there_stays"),
        (learning.LivePath, "a state that is no JSON", "a_repeated_update_will_do"),
        (learning.ForgetsItsWeights, "restores no weights", "a_repeated_update_will_do"),
        (learning.Forgetful, "forgets what it learned when it rests", "a_rest_does_no_harm"),
        (learning.HalfWritten, "leaves files of an update that wasn't", "an_empty_batch_does_no_harm"),
        (learning.Averaging, "division by zero for an empty batch", "an_empty_batch_does_no_harm"),
    ],
    "tracker": [
        (watching.UnknownSettings, "fails for settings that are no numbers", "a_run_can_be_tracked"),
        (watching.Uncommitted, "commits nothing", "what_is_logged_is_kept"),
        (watching.AtTheEnd, "loses what a broken-off run logged", "what_is_logged_is_kept"),
        (watching.TracesSuccess, "fails for an operation that failed", "operations_can_be_traced"),
        (watching.Strict, "fails for NaN", "odd_figures_will_do"),
        (watching.Once, "fails when a run is resumed", "a_broken_off_run_goes_on"),
        (watching.NeedsBegin, "can't be closed before a run", "closing_is_always_fine"),
        (watching.Cleaning, "deletes files of the run", "the_run_folder_stays_whole"),
    ],
    "hook": [
        (watching.Permissive, "allows a call with True", "it_decides_on_requests_and_calls"),
        (watching.FirstMessageOnly, "records the first message alone", "it_keeps_records_whole"),
        (watching.NeedsUsage, "adds up tokens that no policy counted", "it_watches_a_whole_run"),
    ],
    "plugin": [
        (watching.MisspeltHook, "a hook that doesn't exist", "it_loads"),
        (watching.WrongArgument, "an argument that its hook doesn't have", "it_loads"),
        (watching.DividesByLosses, "raises after an update", "its_hooks_do_not_raise"),
        (watching.StartsOnce, "fails when a run is resumed", "a_resumed_run_may_tell_it_again"),
        (watching.WritesIntoRecords, "writes into the records", "records_stay_as_they_are"),
        (watching.SetsVariables, "sets an environment variable", "the_process_stays_as_it_is"),
    ],
    "command": [
        (_given(watching.no_command), "a function that is no command", "it_is_a_command"),
        (_given(watching.undescribed), "an option without help", "it_says_what_it_does"),
        (_given(watching.only_words), "no --json", "it_speaks_json"),
        (_given(watching.traceback), "a traceback for a missing file", "wrong_arguments_are_usage_errors"),
        (_given(watching.takes_anything), "takes options that don't exist", "wrong_arguments_are_usage_errors"),
    ],
}

PLANTED = [Planted(kind, *bug) for kind, bugs in _BUGS.items() for bug in bugs]
