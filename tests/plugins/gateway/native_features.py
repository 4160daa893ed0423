"""What can stand in completions, embeddings, and in responses and messages of a server that speaks them itself.

For the tests of what passes a gateway, and for the benchmark of it.
"""

from __future__ import annotations

from typing import Any

from chat_server import Reply, chunks

Body = dict[str, Any]

RESPONSE: Body = {
    "id": "resp_7",
    "object": "response",
    "created_at": 3,
    "model": "served",
    "status": "completed",
    "output": [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "xyz"},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Sunny.", "annotations": [{"type": "url_citation"}]}],
        },
        {"type": "function_call", "id": "f", "call_id": "c", "name": "weather", "arguments": '{"city": "Rome"}'},
    ],
    "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5, "total_tokens": 14},
}
MESSAGE: Body = {
    "id": "msg_7",
    "type": "message",
    "role": "assistant",
    "model": "served",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "text", "text": "Sunny.", "citations": [{"type": "char_location"}]},
        {"type": "tool_use", "id": "c", "name": "weather", "input": {"city": "Rome"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0, "output_tokens": 5},
}

COMPLETION: Body = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 3,
    "model": "served",
    "choices": [
        {
            "text": " there was",
            "index": 0,
            "finish_reason": "length",
            "logprobs": {"tokens": [" there", " was"], "token_logprobs": [-0.5, -0.25], "text_offset": [0, 6]},
            "stop_reason": "END",
        }
    ],
    "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6},
}
COMPLETIONS: Body = {
    "best_of": 2,
    "echo": True,
    "frequency_penalty": 0.1,
    "logit_bias": {"7": -1},
    "logprobs": 2,
    "max_tokens": 5,
    "n": 2,
    "presence_penalty": 0.2,
    "seed": 7,
    "stop": ["END"],
    "suffix": "!",
    "temperature": 0.3,
    "top_p": 0.9,
    "user": "ada",
    "top_k": 3,
    "guided_regex": "[a-z]+",
}
PROMPTS: Body = {"text": "Once", "several texts": ["a", "b"], "token ids": [1, 2, 3]}
EMBEDDED: Body = {
    "object": "list",
    "model": "served",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    "usage": {"prompt_tokens": 2, "total_tokens": 2},
}
EMBEDDINGS: Body = {
    "input": "tea",
    "several inputs": ["tea", "rain"],
    "token ids": [1, 2],
    "dimensions": 2,
    "encoding_format": "float",
    "user": "ada",
    "input_type": "query",
}
"""Fields of a request, and what `input` can be."""


def response_stream() -> Reply:
    begun = {**RESPONSE, "status": "in_progress", "output": []}
    return chunks(
        b"event: response.created\n",
        {"type": "response.created", "response": begun, "sequence_number": 0},
        {"type": "response.output_text.delta", "delta": "Sun", "item_id": "m", "sequence_number": 1},
        {"type": "response.output_text.delta", "delta": "ny.", "item_id": "m", "sequence_number": 2},
        {"type": "response.web_search_call.searching", "item_id": "ws", "sequence_number": 3},
        {"type": "response.completed", "response": RESPONSE, "sequence_number": 4},
        done=False,
    )


def message_stream() -> Reply:
    begun = {**MESSAGE, "content": [], "stop_reason": None, "usage": {**MESSAGE["usage"], "output_tokens": 1}}
    call = {"type": "tool_use", "id": "c", "name": "weather", "input": {}}
    return chunks(
        b"event: message_start\n",
        {"type": "message_start", "message": begun},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Sunny."}},
        {"type": "content_block_start", "index": 2, "content_block": call},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"city": '}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"Rome"}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
        done=False,
    )
