"""Writes a folder in the form of a copy of ETAPP. All of its content is made up here."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Folder -> tools: name -> parameters, of which those with a star are required.
TOOLS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Calendar": {
        "add_event_to_calendar": ("title*", "description", "start_time*", "end_time*"),
        "view_events_of_today": (),
        "find_events_between": ("start_time*", "end_time*"),
        "delete_event": ("id*",),
        "add_alarm": ("alarm_time*", "message"),
        "remove_alarm": ("alarm_time*",),
        "view_alarms": (),
    },
    "Email": {
        "send_email": ("receiver*", "subject", "content*"),
        "search_email_by_sender": ("sender*",),
        "search_email_by_content": ("query*",),
        "get_today_emails_until_now": (),
        "delete_email": ("id*",),
    },
    "Health": {
        "get_current_health_status": (),
        "get_recent_health_summary": ("date",),
        "get_recent_workouts": ("limit",),
    },
    "Music": {
        "play_music": ("title*",),
        "search_music": ("query*",),
        "get_favorite_music": (),
        "add_music_to_favorites": ("title*", "artist"),
        "remove_music_from_favorites": ("title*",),
    },
    "Navigation": {
        "find_accommodations": ("city*",),
        "find_attractions": ("city*",),
        "find_restaurants": ("city*",),
        "find_flights": ("destination*",),
    },
    "Shopping": {
        "add_product_to_cart": ("product_title*", "quantity"),
        "remove_product_from_cart": ("product_title*",),
        "view_cart": (),
        "search_products": ("query*",),
    },
    "SmartHome": {"control_light_in_home": ("brightness*",), "get_home_devices": ()},
    "Weather": {"get_weather_of_day": ("place", "date")},
    "WebBrowsing": {"search_news_by_category": ("category*",), "search_encyclopedia": ("query*",)},
}
SECTIONS = ("calendar", "email", "health", "music", "navigation", "shopping", "smart_home_devices", "web_browsing")
DATES = ("2024-09-06", "2024-09-07", "2024-09-08", "2024-09-09")
PEOPLE = [f"{first} {last}" for first in ("Ana", "Bo", "Cem", "Dora") for last in ("Aalto", "Berg", "Costa", "Dimov")]


def write_copy(folder: Path, *, persons: int = 16, instructions: int = 50, seed: int = 1) -> Path:
    draw = random.Random(seed)
    for section, tools in TOOLS.items():
        write_json(folder / "toolkit" / section / "config.json", [schema(name, given) for name, given in tools.items()])
    names = PEOPLE[:persons]
    asked = [instruction(number, draw) for number in range(instructions)]
    write_json(folder / "data/instruction/instruction.json", asked)
    write_json(folder / "profile/profiles.json", {name: profile(name) for name in names})
    for name in names:
        slug = name.replace(" ", "_")
        concrete = {one: {"likes": [f"{name}'s way of {one}"]} for one in SECTIONS}
        write_json(folder / "profile/concrete_profile" / f"profile_{slug}.json", concrete)
        for table, given in tables_of(slug, name).items():
            write_csv(folder / "database" / f"{table}.csv", *given)
    for table, given in SHARED.items():
        write_csv(folder / "database" / f"{table}.csv", *given)
    write_json(folder / "database/Weather/weather.json", {"Harbour City": {date: {"sky": "clear"} for date in DATES}})
    news = [{"title": "A comet", "source": "x", "url": "", "summary": "It is bright.", "date": DATES[0]}]
    write_json(folder / "database/Web_Browsing/news.json", {"science": news})
    return folder


def schema(name: str, parameters: Sequence[str]) -> dict[str, Any]:
    names = [one.rstrip("*") for one in parameters]
    kinds = {"quantity": "integer", "limit": "integer", "brightness": "integer"}
    properties = {one: {"type": kinds.get(one, "string"), "description": one} for one in names}
    required = [one.rstrip("*") for one in parameters if one.endswith("*")]
    taken = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": f"Made up: {name.replace('_', ' ')}.", "parameters": taken}
    return {"type": "function", "function": function}


def instruction(number: int, draw: random.Random) -> dict[str, Any]:
    everything = [name for tools in TOOLS.values() for name in tools]
    # Each tool is in some instruction, whatever is drawn.
    tools = list(dict.fromkeys([everything[number % len(everything)], *draw.sample(everything, draw.randint(0, 7))]))
    return {
        "timestamp": f"{draw.choice(DATES)} {draw.randrange(7, 20):02d}:30:00",
        "query": f"Please see to matter number {number}.",
        "keypoint for personal": [f"keeps to the habits about {number}"],
        "keypoint for proactive": [f"thinks of what follows from {number}", "says what is open"],
        "available_tools_name": tools,
        "location": draw.choice(("Home", "Office")),
    }


def profile(name: str) -> dict[str, Any]:
    place = {"Location": "Harbour City", "Occupation": "pilot", "Character": "calm"}
    basics = {"Name": name, "Age": 40, "Gender": "-", **place}
    kinds = ("Entertainment", "Lifestyle", "Technology", "Exercise", "Shopping", "Travel")
    return {
        "DemographicData": {"BasicInformation": basics, "InterestActivity": {"Hobbies": ["chess"]}},
        "Preferences": {kind: f"{name} on {kind}" for kind in kinds},
    }


def tables_of(slug: str, name: str) -> dict[str, tuple[str, Sequence[Sequence[object]]]]:
    """The columns and rows of the tables of a person."""
    days = list(enumerate(DATES))
    events = [(day, f"meeting {day}", "", f"{date} 12:00:00", f"{date} 13:00:00", "10") for day, date in days]
    mails = [
        (day, "Eva", name, f"invoice {day}", "the blue bicycle", f"{date} 07:00:00", "in", "no", "")
        for day, date in days
    ]
    mail = "id sender receiver subject content timestamp status read_status attachments"
    alarms = [(day, f"{date} 06:30:00", "up") for day, date in days]
    health = [(f"{date} 07:00:00", 4000 + day, "fine", "low") for day, date in days]
    cart = "id asin product_title product_price quantity category"
    return {
        f"Calendar/events/events_{slug}": ("id title description start_time end_time reminder", events),
        f"Calendar/alarms/alarms_{slug}": ("id alarm_time message", alarms),
        f"Email/emails_{slug}": (mail, mails),
        f"Health/Health_records_{slug}": ("timestamp steps mood stress_level", health),
        f"Health/Health_summary_records_{slug}": ("date sleep", [(date, "{'hours': 7}") for date in DATES]),
        f"Health/Workout_records_{slug}": ("date kind minutes", [(date, "run", 30) for date in DATES]),
        f"Music/favorites_{slug}": ("id music_type title artist", [(1, "jazz", "Blue", "Ana")]),
        f"Shopping/carts_{slug}": (cart, [(1, "A1", "Lamp", "9.50", "1", "home")]),
    }


SHARED: Mapping[str, tuple[str, list[Sequence[object]]]] = {
    "Music/music_all": ("title annotation_count", [("Blue", 5), ("Red Rain", 2)]),
    "Shopping/product": (
        "asin product_title product_price category",
        [("A1", "Lamp", "9.50", "home"), ("B2", "Green kettle", "30.00", "kitchen")],
    ),
    "Navigation/accommodations/Lakeside": ("name price", [("one of accommodations", "Lakeside")]),
    "Navigation/attractions/Lakeside": ("name rating", [("one of attractions", "Lakeside")]),
    "Navigation/restaurants/Lakeside": ("name cuisine", [("one of restaurants", "Lakeside")]),
    "Navigation/flights/Lakeside": ("name destination", [("one of flights", "Lakeside")]),
}


def write_csv(path: Path, columns: str, rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns.split(), *rows])


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")
