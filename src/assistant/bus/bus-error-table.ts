import type { AssistantErrorCode } from "../assistant-error.ts";

const standard = (name: string) => `org.freedesktop.DBus.Error.${name}`;
const own = (name: string) => `dev.assistant.Error.${name}`;

/** The D-Bus error for an unexpected error, whose details are only in the log. */
export const FAILED = own("Failed");
/** The D-Bus error for a call that is cancelled because the daemon is shutting down. */
export const CANCELLED = own("Cancelled");

/** Maps every error code of the assistant to its D-Bus error name. */
export const busErrorTable: Readonly<Record<AssistantErrorCode, string>> = {
  invalid_request: standard("InvalidArgs"),
  unsupported_parameter: standard("NotSupported"),
  unsupported_schema: standard("NotSupported"),
  context_length_exceeded: standard("LimitsExceeded"),
  model_not_found: own("NotFound"),
  no_model: own("NotFound"),
  model_unusable: FAILED,
  insufficient_memory: FAILED,
  model_unsuitable: standard("InvalidArgs"),
  queue_full: standard("LimitsExceeded"),
  busy: own("Busy"),
  limits_exceeded: standard("LimitsExceeded"),
  timeout: FAILED,
  cancelled: CANCELLED,
  invalid_output: own("BadResponse"),
  engine_failed: FAILED,
  ledger_unavailable: own("LedgerUnavailable"),
  storage_failed: FAILED,
  exists: own("Exists"),
  consent_required: own("ConsentRequired"),
  unauthorized: own("Unauthorized"),
  unreachable: own("Unreachable"),
  rate_limited: standard("LimitsExceeded"),
  provider_failed: FAILED,
  cut_off: own("BadResponse"),
  bad_response: own("BadResponse"),
  not_found: own("NotFound"),
  method_not_allowed: standard("UnknownMethod"),
  unsupported_media_type: standard("InvalidArgs"),
  payload_too_large: standard("LimitsExceeded"),
  forbidden: standard("AccessDenied"),
  shutting_down: CANCELLED,
  internal: FAILED,
};
