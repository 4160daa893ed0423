"""Clients of Gemini, which speak Google's generateContent, at a gateway; and servers that speak it behind one."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from chat_server import Reply, chunks, completion, tool_call

from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits

from .conftest import CLIENT
from .upstream import Passing, Start

Body = dict[str, Any]
WEATHER = {
    "name": "weather",
    "description": "The weather",
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]},
}
ASK: Body = {
    "contents": [{"role": "user", "parts": [{"text": "Rome?"}]}],
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "tools": [{"functionDeclarations": [WEATHER]}],
    "generationConfig": {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 50, "stopSequences": ["END"], "seed": 3},
}
ANSWER: Body = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
                    {"text": "Sunny."},
                    {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
                ],
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 9,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 14,
    },
    "modelVersion": "served",
    "responseId": "r7",
}
SPEAKS_IT = ("policy.protocol=google",)
NO_MORE = ("policy.apis=[]",)


def post(
    gateway: Passing,
    body: Body,
    query: str = "",
    headers: dict[str, str] | None = None,
    *,
    model: str = "served",
    method: str = "generateContent",
) -> httpx.Response:
    address = f"{gateway.url}/s/tea/v1beta/models/{model}:{method}{query}"
    return CLIENT.post(address, content=json.dumps(body, indent=1), headers=headers)


def streamed() -> Reply:
    top = {"modelVersion": "served", "responseId": "r7"}
    said = [[{"text": "Sun"}], [{"text": "ny."}], ANSWER["candidates"][0]["content"]["parts"][2:]]
    first, second, last = ({"content": {"role": "model", "parts": parts}, "index": 0} for parts in said)
    end = {"candidates": [{**last, "finishReason": "STOP"}], "usageMetadata": ANSWER["usageMetadata"], **top}
    return chunks({"candidates": [first], **top}, {"candidates": [second], **top}, end, done=False)


# -- in front of a server of chat completions --------------------------------------------------------------------------


def test_a_request_is_translated_and_so_is_its_answer(upstream: Start) -> None:
    gateway = upstream(
        completion(
            "Let me see.", message={"tool_calls": [tool_call("weather", city="Rome")]}, finish_reason="tool_calls"
        ),
        assignments=NO_MORE,
    )

    answer = post(gateway, ASK)

    [asked] = gateway.asked
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rome?"}]
    assert (asked["temperature"], asked["top_p"], asked["max_tokens"], asked["seed"]) == (0.5, 0.9, 50, 3)
    assert asked["stop"] == ["END"]
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    described = {"name": "weather", "description": "The weather", "parameters": schema}
    assert asked["tools"] == [{"type": "function", "function": described}]
    [candidate] = answer.json()["candidates"]
    call = {"functionCall": {"id": "call-weather", "name": "weather", "args": {"city": "Rome"}}}
    assert candidate["content"] == {"role": "model", "parts": [{"text": "Let me see."}, call]}
    assert candidate["finishReason"] == "STOP"
    assert answer.json()["usageMetadata"]["promptTokenCount"] == 9
    assert answer.json()["modelVersion"] == "served"
    assert [turn.text for turn in gateway.episode().turns] == ["Let me see."]


def test_results_of_functions_answer_the_calls_that_were_made(upstream: Start) -> None:
    gateway = upstream(completion("It is sunny."), assignments=NO_MORE)
    calls = [{"functionCall": {"name": "weather", "args": {"city": city}}} for city in ("Rome", "Oslo")]
    results = [{"functionResponse": {"name": "weather", "response": {"output": said}}} for said in ("sun", "snow")]
    contents = [*ASK["contents"], {"role": "model", "parts": calls}, {"role": "user", "parts": results}]

    post(gateway, {**ASK, "contents": contents})

    made, *answers = gateway.asked[0]["messages"][2:]
    assert [json.loads(call["function"]["arguments"])["city"] for call in made["tool_calls"]] == ["Rome", "Oslo"]
    assert [(one["role"], one["content"]) for one in answers] == [("tool", "sun"), ("tool", "snow")]
    assert [one["tool_call_id"] for one in answers] == [call["id"] for call in made["tool_calls"]]


def test_what_can_not_be_translated_is_refused_as_google_refuses(upstream: Start) -> None:
    gateway = upstream(Reply({"error": {"message": "slow down"}}, 429, {"retry-after": "3"}), assignments=NO_MORE)
    wrong: dict[str, Body] = {
        "cachedContent": {"cachedContent": "cachedContents/7"},
        "googleSearch": {"tools": [{"googleSearch": {}}]},
        "threshold": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_LOW_AND_ABOVE"}]},
        "fileData": {"contents": [{"parts": [{"fileData": {"mimeType": "video/mp4", "fileUri": "https://x/v"}}]}]},
    }

    for name, body in wrong.items():
        error = post(gateway, {**ASK, **body}).json()["error"]
        assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
        assert name in error["message"]
    assert not gateway.asked
    busy = post(gateway, ASK)
    assert busy.json() == {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    assert busy.headers["retry-after"] == "3"


def test_a_role_that_google_does_not_have_is_left_to_its_server(upstream: Start) -> None:
    gateway = upstream(Reply(ANSWER), assignments=SPEAKS_IT)
    contents = [{"role": "tool", "parts": [{"text": "22 degrees"}]}, *ASK["contents"]]

    answer = post(gateway, {**ASK, "contents": contents})

    assert (answer.status_code, answer.json()) == (200, ANSWER)
    assert gateway.asked[0]["contents"] == contents


def test_snake_case_means_the_same(upstream: Start) -> None:
    gateway = upstream(completion(), assignments=NO_MORE)
    parts = [{"inline_data": {"mime_type": "image/png", "data": "AA=="}}, {"text": "What is it?"}]
    said = {"system_instruction": {"parts": [{"text": "Be brief."}]}, "contents": [{"parts": parts}]}
    form = {"response_mime_type": "application/json", "response_schema": {"type": "OBJECT"}, "max_output_tokens": 9}

    post(gateway, {**said, "generation_config": form})

    [asked] = gateway.asked
    assert asked["messages"][1]["content"][0]["image_url"]["url"] == "data:image/png;base64,AA=="
    assert asked["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert asked["max_tokens"] == 9


# -- in front of a server that speaks it -------------------------------------------------------------------------------


def test_a_conversation_goes_on_and_the_sampling_of_the_run_is_added_and_nothing_else(upstream: Start) -> None:
    gateway = upstream(Reply(ANSWER), assignments=(*SPEAKS_IT, "sampling.max_tokens=20"))
    ask = {**ASK, "labels": {"user": "ada"}}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "22"}}}]}

    post(gateway, ask)
    post(gateway, {**ask, "contents": [*ASK["contents"], ANSWER["candidates"][0]["content"], result]})

    assert gateway.asked[0] == {**ask, "generationConfig": {**ASK["generationConfig"], "maxOutputTokens": 20}}
    assert gateway.episode().task.user == "ada"
    assert gateway.episode().turns[1].shown == (0, 1, 2, 3)


def test_programs_of_other_protocols_are_answered_by_it(upstream: Start) -> None:
    gateway = upstream(Reply(ANSWER), streamed(), assignments=(*SPEAKS_IT, *NO_MORE))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    asked: Body = {
        "model": "served",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rome?"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": schema}}],
        "max_tokens": 9,
    }
    chat = gateway.openai().chat.completions

    whole = chat.create(**asked)
    pieces = list(chat.create(**asked, stream=True))

    assert gateway.asked[0] == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Rome?"}]}],
        "tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": schema}]}],
        "generationConfig": {"maxOutputTokens": 9},
    }
    message = whole.choices[0].message
    assert message.content == "Sunny."
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Rome"}
    assert whole.usage.prompt_tokens == 9
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == "Sunny."
    assert pieces[-1].choices[0].finish_reason == "tool_calls"


def test_a_model_does_not_lead_to_another_address_and_tokens_are_counted(upstream: Start) -> None:
    gateway = upstream(Reply({**ANSWER, "totalTokens": 31}), assignments=(*SPEAKS_IT, "policy.model="))

    answers = [post(gateway, ASK, model=model) for model in ("%2e%2e/%2e%2e/files", "a%3Fkey=x", "a//b")]

    assert {answer.status_code for answer in answers} <= {200, 404}
    assert all(path.startswith("models/") and "?" not in path and ".." not in path for path in gateway.server.paths)
    counted = CLIENT.post(f"{gateway.url}/v1beta/models/served:countTokens", json={"contents": ASK["contents"]})
    assert counted.json()["totalTokens"] == 31
    assert gateway.server.paths[-1] == "models/served:countTokens"


# -- keys, counts, and the real client ---------------------------------------------------------------------------------


def test_a_key_is_read_where_its_clients_put_it_and_goes_no_further(upstream: Start, keys: KeyFile) -> None:
    key = keys.add("ada", user="ada")
    gateway = upstream(Reply(ANSWER), assignments=SPEAKS_IT, limits=Limits(key_file=keys.path))

    refused, answered = post(gateway, ASK), post(gateway, ASK, headers={"x-goog-api-key": key})

    assert (refused.status_code, refused.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert answered.status_code == 200
    assert key not in str(gateway.server.headers)


@pytest.mark.parametrize("assignments", [NO_MORE, SPEAKS_IT])
def test_the_official_client_is_answered(upstream: Start, assignments: tuple[str, ...]) -> None:
    genai = pytest.importorskip("google.genai")
    call = {"message": {"tool_calls": [tool_call("weather", city="Rome")]}, "finish_reason": "tool_calls"}
    pieces = [{"index": 0, "delta": {"content": one}, "finish_reason": None} for one in ("Sun", "ny.")]
    ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
    whole_stream = chunks(*({"id": "c", "model": "served", "choices": [one]} for one in (*pieces, ended)))
    script = [Reply(ANSWER), streamed()] if assignments == SPEAKS_IT else [completion("Sunny.", **call), whole_stream]
    gateway = upstream(*script, assignments=assignments)
    client = genai.Client(api_key="none", http_options={"base_url": f"{gateway.url}/s/tea"})
    config = {"tools": [{"function_declarations": [WEATHER]}], "automatic_function_calling": {"disable": True}}

    whole = client.models.generate_content(model="served", contents="Rome?", config=config)
    stream = client.models.generate_content_stream(model="served", contents="Rome?", config=config)
    text = "".join(piece.text or "" for piece in stream)

    listed = {model.name: model.supported_actions for model in client.models.list()}
    assert "generateContent" in listed["models/served"]
    assert whole.function_calls[0].name == "weather"
    assert whole.function_calls[0].args == {"city": "Rome"}
    assert text == "Sunny."
    assert [turn.text for turn in gateway.episode().turns] == ["Sunny.", "Sunny."]
