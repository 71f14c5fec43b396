import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";

/** An answer whose status is not 2xx, as an error. The status decides about a retry. */
export class ProviderRefusal extends AssistantError {
  readonly status: number;

  constructor(
    code: AssistantErrorCode,
    message: string,
    options: { readonly status: number; readonly retryAfterSeconds?: number | undefined },
  ) {
    const { status, retryAfterSeconds } = options;
    super(code, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
    this.status = status;
  }
}
