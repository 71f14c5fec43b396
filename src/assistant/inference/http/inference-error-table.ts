import type { AssistantErrorCode } from "../../assistant-error.ts";

/** The HTTP status and the headers for an error code. */
export interface ErrorRow {
  readonly status: number;
  /** The member `type` of the error in the response, as in OpenAI's API. */
  readonly type: string;
  /**
   * Tells OpenAI's client libraries whether to repeat the request automatically. If undefined, they repeat 429 and all
   * statuses from 500 on.
   */
  readonly retry?: false;
}

const wrong = "invalid_request_error";
const broken = "server_error";
const unavailable = "service_unavailable";

/**
 * The HTTP form of every error code of the assistant. 503 is for conditions outside the request. If the user must fix
 * such a condition (a disk, a file, a setting), clients are told not to repeat the request at once.
 */
export const inferenceErrorTable: Readonly<Record<AssistantErrorCode, ErrorRow>> = {
  invalid_request: { status: 400, type: wrong },
  unsupported_parameter: { status: 400, type: wrong },
  unsupported_schema: { status: 400, type: wrong },
  context_length_exceeded: { status: 400, type: wrong },
  model_not_found: { status: 404, type: wrong },
  no_model: { status: 503, type: unavailable, retry: false },
  model_unusable: { status: 503, type: unavailable, retry: false },
  insufficient_memory: { status: 503, type: unavailable, retry: false },
  model_unsuitable: { status: 400, type: wrong },
  queue_full: { status: 429, type: "rate_limit_error" },
  busy: { status: 409, type: wrong },
  limits_exceeded: { status: 429, type: "rate_limit_error" },
  timeout: { status: 504, type: broken },
  cancelled: { status: 409, type: wrong, retry: false },
  invalid_output: { status: 500, type: broken, retry: false },
  engine_failed: { status: 500, type: broken },
  ledger_unavailable: { status: 503, type: unavailable, retry: false },
  storage_failed: { status: 503, type: unavailable, retry: false },
  exists: { status: 409, type: wrong, retry: false },
  consent_required: { status: 403, type: "permission_error" },
  unauthorized: { status: 401, type: "authentication_error" },
  unreachable: { status: 502, type: broken },
  rate_limited: { status: 429, type: "rate_limit_error" },
  provider_failed: { status: 502, type: broken },
  cut_off: { status: 502, type: broken },
  bad_response: { status: 502, type: broken, retry: false },
  not_found: { status: 404, type: wrong },
  method_not_allowed: { status: 405, type: wrong },
  unsupported_media_type: { status: 415, type: wrong },
  payload_too_large: { status: 413, type: wrong },
  forbidden: { status: 403, type: "permission_error" },
  shutting_down: { status: 503, type: unavailable },
  internal: { status: 500, type: broken },
};
