"""What can stand in requests and answers: for the tests of what passes a gateway, and for the benchmark of it."""

from __future__ import annotations

from typing import Any

from chat_server import USAGE, chunks, completion, tool_call

Body = dict[str, Any]

# -- chat completions --------------------------------------------------------------------------------------------------

TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather", "parameters": {"type": "object"}, "strict": True},
}
CALL = '<tool_call>{"name": "weather", "arguments": {}}</tool_call>'
FIELDS: Body = {
    "audio": {"voice": "alloy", "format": "wav"},
    "chat_template_kwargs": {"enable_thinking": False},
    "frequency_penalty": 0.1,
    "logit_bias": {"7": -1},
    "logprobs": True,
    "max_completion_tokens": 99,
    "metadata": {"trip": "rome"},
    "n": 2,
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": -0.2,
    "prompt_cache_key": "k",
    "reasoning_effort": "high",
    "response_format": {"type": "json_schema", "json_schema": {"name": "tea", "strict": True, "schema": {}}},
    "safety_identifier": "s",
    "seed": 7,
    "service_tier": "flex",
    "something_new": {"a": [1, None]},
    "stop": ["\n\n"],
    "store": True,
    "temperature": 0.3,
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "tools": [TOOL, {"type": "custom", "custom": {"name": "grep"}}],
    "top_k": 5,
    "top_logprobs": 3,
    "top_p": 0.9,
    "user": "ada",
    "verbosity": "low",
    "web_search_options": {},
}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
BROKEN = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}}
LOGPROB = {"token": "hi", "logprob": -0.25, "bytes": [104, 105], "top_logprobs": []}
CONVERSATION = [
    {"role": "developer", "content": "Be brief.", "name": "boss"},
    {"role": "user", "name": "ada", "content": [{"type": "text", "text": "What is this?"}, PICTURE]},
    {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [BROKEN]},
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "sunny"}]},
    {"role": "user", "content": "a"},
    {"role": "user", "content": "b"},
]

ANSWERS = {
    "reasoning": completion("fine", message={"reasoning_content": "Let me think."}),
    "refusal": completion(None, message={"refusal": "I can't."}),
    "filtered": completion("", finish_reason="content_filter"),
    "logprobs": completion("hi", logprobs={"content": [LOGPROB], "refusal": None}),
    "broken arguments": completion(None, message={"tool_calls": [BROKEN]}),
    "usage": completion("fine", top={"usage": {**USAGE, "completion_tokens_details": {"reasoning_tokens": 3}}}),
    "service tier": completion("fine", top={"service_tier": "flex", "system_fingerprint": "fp"}),
    "quoted call": completion(f'The mail says: "{CALL}" and I refuse'),
    "whole call as text": completion(CALL),
    "call as JSON text": completion('{"name": "weather", "arguments": {}}'),
    "annotations": completion("fine", message={"annotations": [{"type": "url_citation"}], "audio": None}),
    "stop reason": completion("fine", stop_reason="END"),
}

# -- responses ---------------------------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
STRICT_TOOL: Body = {
    "type": "function",
    "function": {"name": "weather", "description": "d", "parameters": SCHEMA, "strict": True},
}
ADDRESS = "data:image/png;base64,AA=="
COUNTS = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}
HELLO = [{"role": "user", "content": "hi"}]
WEATHER = {"type": "function", "function": {"name": "weather"}}
"""A choice of the tool."""


def user(*parts: Body) -> list[Body]:
    """The messages of a conversation that a user begins with these parts."""
    return [{"role": "user", "content": [*parts]}]


def text(words: str, kind: str = "text") -> Body:
    return {"type": kind, "text": words}


def picture(**more: str) -> Body:
    return {"type": "image_url", "image_url": {"url": ADDRESS, **more}}


def file(content: str) -> Body:
    return {"type": "file", "file": {"filename": "a.pdf", "file_data": content}}


def called(arguments: str, answer: str) -> list[Body]:
    """The messages of a call, whose caller has thought, and of its answer."""
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]}
    return [thought, {"role": "tool", "tool_call_id": "c", "content": answer}]


def schema(name: str) -> Body:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": SCHEMA, "strict": True}}


ALIKE: Body = {
    "metadata": {"a": "b"},
    "user": "u",
    "store": False,
    "service_tier": "flex",
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "top_k": 4,
}
RESPONSES: dict[str, tuple[Body, Body]] = {
    "text": ({}, {}),
    "instructions": ({"instructions": "Be brief."}, {"messages": [{"role": "system", "content": "Be brief."}, *HELLO]}),
    "developer": (
        {"input": [{"role": "developer", "content": "x"}]},
        {"messages": [{"role": "developer", "content": "x"}]},
    ),
    "picture": (
        {"input": user(text("?", "input_text"), {"type": "input_image", "image_url": ADDRESS, "detail": "low"})},
        {"messages": user(text("?"), picture(detail="low"))},
    ),
    "file": (
        {"input": user({"type": "input_file", "filename": "a.pdf", "file_data": "data:x"})},
        {"messages": user(file("data:x"))},
    ),
    "calls": (
        {
            "input": [
                {"type": "reasoning", "id": "r", "summary": [], "content": [text("hm", "reasoning_text")]},
                {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{bro"},
                {"type": "function_call_output", "call_id": "c", "output": "sunny"},
            ]
        },
        {"messages": called("{bro", "sunny")},
    ),
    "tools": (
        {
            "tools": [{"type": "function", **STRICT_TOOL["function"]}],
            "tool_choice": {"type": "function", "name": "weather"},
            "parallel_tool_calls": False,
        },
        {"tools": [STRICT_TOOL], "tool_choice": WEATHER, "parallel_tool_calls": False},
    ),
    "allowed tools": (
        {
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "weather"}],
            }
        },
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [WEATHER]}}},
    ),
    "schema": (
        {
            "text": {
                "format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True},
                "verbosity": "low",
            }
        },
        {"response_format": schema("a"), "verbosity": "low"},
    ),
    "reasoning": ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}),
    "limits": (
        {"max_output_tokens": 20, "temperature": 0.5, "top_p": 0.9},
        {"max_completion_tokens": 20, "temperature": 0.5, "top_p": 0.9},
    ),
    "logprobs": (
        {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        {"logprobs": True, "top_logprobs": 2},
    ),
    "what is alike": (ALIKE, ALIKE),
}
NO_RESPONSES: list[tuple[Body, str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "c"}, "conversation"),
    ({"background": True}, "background"),
    ({"truncation": "auto"}, "truncation"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"max_tool_calls": 2}, "max_tool_calls"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
    ({"include": ["reasoning.encrypted_content"]}, "include[0]"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": user({"type": "input_image", "file_id": "f"})}, "input[0].content[0].type"),
    ({"text": {"something": 1}}, "text.something"),
]

# -- messages ----------------------------------------------------------------------------------------------------------


def source(kind: str, **more: str) -> Body:
    """What a picture or a document consists of."""
    return {"source": {"type": "base64", "media_type": kind, "data": "AA=="}, **more}


MESSAGES: dict[str, tuple[Body, Body]] = {
    "text": ({}, {}),
    "system": (
        {"system": [{**text("Be brief."), "cache_control": {"type": "ephemeral"}}]},
        {"messages": [{"role": "system", "content": "Be brief."}, *HELLO]},
    ),
    "picture": ({"messages": user({"type": "image", **source("image/png")})}, {"messages": user(picture())}),
    "document": (
        {"messages": user({"type": "document", **source("application/pdf", title="a.pdf")})},
        {"messages": user(file("data:application/pdf;base64,AA=="))},
    ),
    "text as a document": (
        {"messages": user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}})},
        {},
    ),
    "calls": (
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": ""},
                        {"type": "tool_use", "id": "c", "name": "weather", "input": {"city": "Rome"}},
                    ],
                },
                *user(
                    {"type": "tool_result", "tool_use_id": "c", "content": "no network", "is_error": True}, text("hi")
                ),
            ]
        },
        {"messages": [*called('{"city": "Rome"}', "error: no network"), *HELLO]},
    ),
    "tools": (
        {
            "tools": [{"name": "weather", "description": "d", "input_schema": SCHEMA, "strict": True}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        },
        {"tools": [STRICT_TOOL], "tool_choice": "required", "parallel_tool_calls": False},
    ),
    "one tool": ({"tool_choice": {"type": "tool", "name": "weather"}}, {"tool_choice": WEATHER}),
    "schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}},
        {"response_format": schema("answer"), "reasoning_effort": "low"},
    ),
    "others": (
        {
            "stop_sequences": ["END"],
            "top_k": 4,
            "top_p": 0.9,
            "temperature": 0.5,
            "metadata": {"user_id": "u"},
            "service_tier": "standard_only",
        },
        {"stop": ["END"], "top_k": 4, "top_p": 0.9, "temperature": 0.5, "user": "u", "service_tier": "default"},
    ),
}
NO_MESSAGES: list[tuple[Body, str]] = [
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
    ({"container": "c"}, "container"),
    ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    (
        {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}]},
        "messages[0].content[0].type",
    ),
    ({"messages": user({**text("x"), "citations": {"enabled": True}})}, "messages[0].content[0].citations"),
    ({"metadata": {"team": "x"}}, "metadata.team"),
]

# -- one answer with everything, whole and streamed --------------------------------------------------------------------

RICH = completion(
    "Sunny.",
    message={"reasoning_content": "Hm.", "tool_calls": [tool_call("weather", city="Rome")]},
    finish_reason="tool_calls",
    top={"usage": COUNTS, "service_tier": "flex"},
)
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 3, "model": "served"}
CALL_PART = {
    "index": 0,
    "id": "call-weather",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": '},
}
STREAM = chunks(
    *(
        {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in (
            {"role": "assistant", "content": ""},
            {"reasoning_content": "H"},
            {"reasoning_content": "m."},
            {"content": "Sun"},
            {"content": "ny."},
            {"tool_calls": [CALL_PART]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
        )
    ),
    {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {**HEAD, "choices": [], "usage": COUNTS},
)
