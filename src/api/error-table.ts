import type { ErrorCode } from "../base/errors.ts";

/**
 * The HTTP status of every code. 403 is for a good token with too small a scope; 503 for what
 * another process, or the disk, has to put right before the same call can work.
 */
export const errorTable: Readonly<Record<ErrorCode, number>> = {
  invalid_spec: 400,
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  name_taken: 409,
  field_owned: 409,
  wrong_state: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  too_many_requests: 429,
  timeout: 503,
  engine_unreachable: 503,
  server_unreachable: 503,
  engine_error: 500,
  image_not_found: 409,
  registry_denied: 409,
  git_unreachable: 503,
  git_denied: 409,
  git_not_found: 409,
  archive_invalid: 400,
  build_failed: 409,
  name_clash: 409,
  port_taken: 409,
  disk_full: 503,
  store_locked: 503,
  store_corrupt: 500,
  not_implemented: 501,
  internal: 500,
};
