import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";

/** The error for an answer whose status is not 2xx. The status determines if the request is retried. */
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
