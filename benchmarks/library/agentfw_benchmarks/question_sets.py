"""Public sets of questions whose answers' places are known: conversations, meetings, documents and encyclopedias.

Nothing of them is shipped. Each set is a repository that the user clones into one folder; `sets_below` says which
are missing and where to get them. Reading a set returns worlds. A world is what one memory holds, with the questions
that are asked of it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentfw_memory import NewSkill

LONGEST = 20_000
"""Number of characters of a skill, at most."""
MOST_EVIDENCE = 20
"""A question about a meeting whose evidence is longer than so many turns asks for a summary."""
NOTES = 400
READER = "a reader"
"""Who asks about documents. They own nothing."""


@dataclass(frozen=True)
class Asked:
    text: str
    user: str
    wanted: frozenset[str]
    """Names of the notes that answer it."""


@dataclass(frozen=True)
class World:
    name: str
    notes: dict[str, NewSkill]
    questions: Sequence[Asked]


@dataclass(frozen=True)
class QuestionSet:
    name: str
    language: str
    """As the stemmer of the baseline calls it. Empty if it has none, or if words aren't separated by spaces."""
    repository: str
    """On GitHub."""
    licence: str
    path: str
    """A file or folder of the repository, below the folder in which it was cloned."""
    read: Callable[[Path], Iterable[World]]


def realtalk(folder: Path) -> Iterator[World]:
    """Ten chats of people over three weeks."""
    for path in _numbered(folder.glob("Chat_*.json")):
        spoken = json.loads(path.read_text("utf-8"))
        notes = {}
        for session in range(1, 1000):
            for turn in spoken.get(f"session_{session}", ()):
                when = datetime.strptime(turn["date_time"], "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC).timestamp()
                text = f"{turn['speaker']}: {turn['clean_text']}"
                notes[turn["dia_id"]] = _shared(turn["speaker"], text, when)
        people = list(spoken["name"].values())
        asked = [
            Asked(one["question"], _named(one["question"], people), frozenset(one["evidence"]) & notes.keys())
            for one in spoken["qa"]
            if isinstance(one.get("evidence"), list)
        ]
        yield World(path.stem, notes, [one for one in asked if one.wanted])


def locomo(folder: Path) -> Iterator[World]:
    """Ten long conversations, written by language models that played people."""
    for path in _numbered(folder.glob("Chat_*.json")):
        yield conversation(json.loads(path.read_text("utf-8")))


def conversation(record: dict[str, Any]) -> World:
    """One record of LoCoMo. Questions of category 5 have no answer."""
    spoken = record["conversation"]
    notes: dict[str, NewSkill] = {}
    for session in range(1, 100):
        for place, turn in enumerate(spoken.get(f"session_{session}", ())):
            began = datetime.strptime(spoken[f"session_{session}_date_time"], "%I:%M %p on %d %B, %Y")
            when = began.replace(tzinfo=UTC).timestamp() + place
            text = " ".join(filter(None, (f"{turn['speaker']}: {turn['text']}", turn.get("blip_caption"))))
            notes[turn["dia_id"]] = _shared(turn["speaker"], text, when)
    people = [spoken["speaker_a"], spoken["speaker_b"]]
    asked = []
    for one in record["qa"]:
        wanted, text = frozenset(one.get("evidence", ())) & notes.keys(), one["question"]
        if wanted and one["category"] != 5:
            asked.append(Asked(text, _named(text, people), wanted))
    return World(record["sample_id"], notes, asked)


def meetings(path: Path) -> Iterator[World]:
    """Transcripts of meetings, with questions about a passage of them."""
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        record, notes = json.loads(line), {}
        for place, turn in enumerate(record["meeting_transcripts"]):
            text = f"{turn['speaker']}: {turn['content']}"
            notes[str(place)] = _shared(turn["speaker"], text, 1e9 + 10.0 * place)
        people = list(dict.fromkeys(note.owner for note in notes.values()))
        asked = []
        for one in record["specific_query_list"]:
            turns = [t for first, last in one["relevant_text_span"] for t in range(int(first), int(last) + 1)]
            wanted = frozenset(map(str, turns)) & notes.keys()
            if 0 < len(wanted) <= MOST_EVIDENCE:
                asked.append(Asked(one["query"], _named(one["query"], people), wanted))
        yield World(f"meeting {number}", notes, asked)


def scenes(path: Path) -> Iterator[World]:
    """Scenes of a series, all in one memory, with questions about what is said in one of them."""
    notes: dict[str, NewSkill] = {}
    asked: list[Asked] = []
    for scene in json.loads(path.read_text("utf-8"))["data"]:
        (dialogue,) = scene["paragraphs"]
        for turn in dialogue["utterances:"]:  # the colon is the file's
            speaker, when = " and ".join(turn["speakers"]), 1e9 + 10.0 * len(notes)
            notes[f"{scene['title']} {turn['uid']}"] = _shared(speaker, f"{speaker}: {turn['utterance']}", when)
        for one in dialogue["qas"]:
            wanted = frozenset(f"{scene['title']} {answer['utterance_id']}" for answer in one["answers"])
            asked.append(Asked(one["question"], READER, wanted))
    yield World("scenes", notes, _some(asked, 400))


def squad(*, most: int = 1200) -> Callable[[Path], Iterator[World]]:
    """Return a reader of files like those of SQuAD: all paragraphs are notes, and some questions are asked."""

    def read(path: Path) -> Iterator[World]:
        notes: dict[str, NewSkill] = {}
        asked: list[Asked] = []
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            for article in json.loads(data)["data"]:
                for paragraph in article["paragraphs"]:
                    title = str(article.get("title") or paragraph.get("id") or "an article")
                    text = paragraph["context"]
                    notes[text] = _shared(title, text)
                    asked += [Asked(one["question"], READER, frozenset({text})) for one in paragraph["qas"]]
        yield World(path.stem, notes, _some(asked, most))

    return read


def passages(folder: Path) -> Iterator[World]:
    """What people asked a search engine, with the passage that answers, among passages that answer nothing."""
    notes: dict[str, NewSkill] = {}
    asked: list[Asked] = []
    for kind in ("answerable", "unanswerable"):
        for line in (folder / f"clapnq_dev_{kind}.jsonl").read_text("utf-8").splitlines():
            record = json.loads(line)
            passage = record["passages"][0]
            notes[passage["text"]] = _shared(passage["title"], passage["text"])
            if kind == "answerable":
                asked.append(Asked(record["input"], READER, frozenset({passage["text"]})))
    yield World("clapnq", notes, asked)


def abstracts(folder: Path) -> Iterator[World]:
    """Abstracts of aerodynamics. The file isn't well-formed XML, so tags are searched for."""
    text = (folder / "cran.all.1400.xml").read_text("utf-8")
    notes: dict[str, NewSkill] = {}
    for document in re.findall(r"<doc>(.*?)</doc>", text, re.DOTALL):
        found = {
            name: re.search(rf"<{name}>(.*?)</{name}>", document, re.DOTALL) for name in ("docno", "author", "text")
        }
        fields = {name: " ".join(one[1].split()) if one else "" for name, one in found.items()}
        author = fields["author"].split(",")[0].split(" and ")[0].strip() or "nobody"
        # Abstracts begin with their titles. Two are empty.
        notes[fields["docno"]] = _shared(author, fields["text"] or "no abstract")
    relevant: dict[int, set[str]] = {}
    for line in (folder / "cranqrel.trec.txt").read_text("utf-8").splitlines():
        number, _, document, grade = line.split()
        if int(grade) > 0:  # whatever isn't judged irrelevant
            relevant.setdefault(int(number), set()).add(document)
    titles = re.findall(r"<title>(.*?)</title>", (folder / "cran.qry.xml").read_text("utf-8"), re.DOTALL)
    # Judgements count the questions in the order of the file.
    asked = [
        Asked(" ".join(title.split()), READER, frozenset(relevant.get(place, ())) & notes.keys())
        for place, title in enumerate(titles, start=1)
    ]
    yield World("cranfield", notes, [one for one in asked if one.wanted])


def beside_notes(
    shared: Callable[[Path], Iterable[World]],
    path: str,
    chats: Callable[[Path], Iterable[World]],
    below: str,
    part: slice = slice(None),
    asked: slice = slice(None),
) -> Callable[[Path], Iterator[World]]:
    """Return a reader of a set whose notes everybody may see, asked by people with up to 400 private notes each."""

    def read(folder: Path) -> Iterator[World]:
        (world,) = shared(folder / path)
        notes, written = dict(world.notes), dict[str, int]()
        for chat in list(chats(folder / below))[part]:
            for name, turn in chat.notes.items():
                owner = turn.owner.casefold()
                if written.get(owner, 0) < NOTES:
                    written[owner] = written.get(owner, 0) + 1
                    notes[f"{chat.name} {name}"] = NewSkill(owner, turn.text, valid_from=turn.valid_from)
        people = sorted(written)
        questions = [replace(one, user=people[place % len(people)]) for place, one in enumerate(world.questions[asked])]
        yield World("private beside shared", notes, questions)

    return read


_XQUAD = {"ar": "arabic", "de": "german", "el": "greek", "en": "english", "es": "spanish", "hi": "hindi"}
_XQUAD |= {"ro": "romanian", "ru": "russian", "th": "", "tr": "turkish", "vi": "", "zh": ""}
_XQUAD_AT, _CRANFIELD = "google-deepmind/xquad", "oussbenk/cranfield-trec-dataset"
_CLAPNQ, _KORQUAD = "clapnq/annotated_data/dev", "korquad.github.io/dataset/KorQuAD_v1.0_dev.json"
_CMRC = "cmrc2018/squad-style-data/cmrc2018_dev.json"
_LOCOMO, _REALTALK = (locomo, "REALTALK/data/locomo"), (realtalk, "REALTALK/data")
_CHOSEN_ON, _REST = (*_LOCOMO, slice(5)), (*_LOCOMO, slice(5, 10), slice(1, None, 2))
_HALF = squad(most=600)

SETS: tuple[QuestionSet, ...] = (
    QuestionSet("locomo", "english", "danny911kr/REALTALK", "CC BY-NC 4.0 (LoCoMo)", "REALTALK/data/locomo", locomo),
    QuestionSet("realtalk", "english", "danny911kr/REALTALK", "not stated", "REALTALK/data", realtalk),
    QuestionSet("friendsqa", "english", "emorynlp/FriendsQA", "Apache-2.0", "FriendsQA/dat/friendsqa_tst.json", scenes),
    QuestionSet("qmsum", "english", "Yale-LILY/QMSum", "MIT", "QMSum/data/ALL/jsonl/test.jsonl", meetings),
    QuestionSet("cranfield", "english", _CRANFIELD, "not stated", "cranfield-trec-dataset", abstracts),
    QuestionSet("clapnq", "english", "primeqa/clapnq", "Apache-2.0", _CLAPNQ, passages),
    QuestionSet("cmrc2018", "", "ymcui/cmrc2018", "CC BY-SA 4.0", _CMRC, squad()),
    QuestionSet("jaquad", "", "SkelterLabsInc/JaQuAD", "CC BY-SA 3.0", "JaQuAD/data/dev", squad()),
    QuestionSet("korquad", "", "korquad/korquad.github.io", "CC BY-ND 2.0 KR", _KORQUAD, squad()),
    QuestionSet("squad-it", "italian", "crux82/squad-it", "CC BY-SA 4.0", "squad-it/SQuAD_it-test.json.gz", squad()),
    *(
        QuestionSet(f"private{name}", language, repository, "as of the sets", "", beside_notes(*shared, *chats))
        for name, language, repository, shared, chats in (
            ("", "english", _XQUAD_AT, (_HALF, "xquad/xquad.en.json"), _REALTALK),
            ("-clapnq", "english", "primeqa/clapnq", (passages, _CLAPNQ), _CHOSEN_ON),
            ("-de", "german", _XQUAD_AT, (_HALF, "xquad/xquad.de.json"), _CHOSEN_ON),
            ("-en", "english", _XQUAD_AT, (squad(), "xquad/xquad.en.json"), _REST),
            ("-es", "spanish", _XQUAD_AT, (_HALF, "xquad/xquad.es.json"), _REALTALK),
        )
    ),
    *(
        QuestionSet(f"xquad-{code}", language, _XQUAD_AT, "CC BY-SA 4.0", f"xquad/xquad.{code}.json", _HALF)
        for code, language in _XQUAD.items()
    ),
)


def sets_below(folder: Path, names: Sequence[str]) -> list[QuestionSet]:
    """Return the sets of these names, or end the program with what to clone."""
    chosen = [one for one in SETS if one.name in names]
    missing = sorted({(one.repository, one.licence) for one in chosen if not (folder / one.path).exists()})
    if missing:
        commands = "\n".join(f"  git clone https://github.com/{name}    # licence: {terms}" for name, terms in missing)
        raise SystemExit(f"{folder} lacks some of the sets; in that folder, run\n{commands}")
    return chosen


def _shared(owner: str, text: str, when: float | None = None) -> NewSkill:
    return NewSkill(owner, text[:LONGEST], visibility="shared", valid_from=when)


def _named(question: str, people: Sequence[str]) -> str:
    """Return who is named in a question, or the first person."""
    return next((name for name in people if name.casefold() in question.casefold()), people[0])


def _numbered(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: int(path.stem.split("_")[1]))


def _some(asked: Sequence[Asked], most: int) -> Sequence[Asked]:
    """Return every n-th question, so that all parts of a set are asked about."""
    return asked[:: -(-len(asked) // most)]
