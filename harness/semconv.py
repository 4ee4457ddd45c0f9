"""Names of what is written on spans and records.

The `gen_ai.*` names are those of the OpenTelemetry GenAI conventions v1.41; all of them are in
development there, and the constants of the Python package are deprecated, so they stand here.
What has no convention is named `harness.*`. No `gen_ai.*` stands on step and parse spans: a
trace page takes any span that has one for a call of a model or a tool.
"""

from __future__ import annotations

SCOPE = "agentrig"
"""Name of the tracer, the meter and the logger."""

# --- GenAI conventions --------------------------------------------------------------------------
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
AGENT_NAME = "gen_ai.agent.name"
STREAM = "gen_ai.request.stream"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
DATA_SOURCE = "gen_ai.data_source.id"
RETRIEVAL_TOP_K = "gen_ai.retrieval.top_k"
RETRIEVAL_QUERY = "gen_ai.retrieval.query.text"
RETRIEVAL_DOCUMENTS = "gen_ai.retrieval.documents"
EMBEDDING_DIMENSION = "gen_ai.embeddings.dimension.count"
TOKEN_TYPE = "gen_ai.token.type"

REQUEST_OPTIONS = {
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "top_k": ("gen_ai.request.top_k", int),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "num_predict": ("gen_ai.request.max_tokens", int),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "max_completion_tokens": ("gen_ai.request.max_tokens", int),
    "seed": ("gen_ai.request.seed", int),
}
"""Sampling options, as Ollama or the OpenAI route calls them, and their types."""

STOP_SEQUENCES = "gen_ai.request.stop_sequences"

# --- Stable conventions -------------------------------------------------------------------------
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
HTTP_METHOD = "http.request.method"
HTTP_STATUS = "http.response.status_code"
HTTP_REQUEST_BYTES = "http.request.body.size"
HTTP_RESPONSE_BYTES = "http.response.body.size"
HTTP_RESEND_COUNT = "http.request.resend_count"
URL_FULL = "url.full"

# --- Our own ------------------------------------------------------------------------------------
RUN_ID = "harness.run_id"
PARENT_RUN_ID = "harness.parent_run_id"
STOP_REASON = "harness.stop_reason"
FAILED_STEP = "harness.failed_step"
REPLAY = "harness.replay"
STEP_INDEX = "harness.step.index"
ERROR_MESSAGE = "harness.error.message"
PARSE_OUTCOME = "harness.parse.outcome"
PARSE_DECISION = "harness.parse.decision"
PARSE_ERROR = "harness.parse.error"
PARSE_REPAIRS = "harness.parse.repairs"
PARSE_IGNORED = "harness.parse.ignored"
COERCIONS = "harness.coercions"
CHUNK_IDS = "harness.retrieval.chunk_ids"
CHUNK_SCORES = "harness.retrieval.scores"
PROMPT_CHUNK_IDS = "harness.prompt.chunk_ids"
CUT_CHUNK_IDS = "harness.prompt.cut_chunk_ids"
CONTEXT_WINDOW = "harness.context_window"
ATTEMPT = "harness.attempt"
RETRY_REASON = "harness.retry_reason"
RETRY_WAIT = "harness.retry_wait_s"
FINGERPRINTS = "harness.action_fingerprints"
FINGERPRINT = "harness.action_fingerprint"
REPEAT_OF_STEP = "harness.repeat_of_step"
TRUNCATED_ATTRIBUTES = "harness.truncated_attributes"
CONTENT_MODE = "harness.content"

CONTENT = frozenset({
    INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_DEFINITIONS, TOOL_ARGUMENTS,
    TOOL_RESULT, RETRIEVAL_QUERY, RETRIEVAL_DOCUMENTS, ERROR_MESSAGE, "harness.question",
    "harness.answer", "harness.parse.thought", "harness.parse.repair_values",
    "harness.parse.ignored_values", "harness.coercion_values",
})  # fmt: skip
"""Attributes that hold texts of the model, the user, a tool or a source."""

# --- Metrics ------------------------------------------------------------------------------------
CLIENT_DURATION = "gen_ai.client.operation.duration"
CLIENT_TOKENS = "gen_ai.client.token.usage"
TOOL_DURATION = "gen_ai.execute_tool.duration"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
SECONDS_BUCKETS = tuple(0.01 * 2**n for n in range(14))
AGENT_SECONDS_BUCKETS = tuple(0.1 * 2**n for n in range(13))
TOKEN_BUCKETS = tuple(4.0**n for n in range(14))
