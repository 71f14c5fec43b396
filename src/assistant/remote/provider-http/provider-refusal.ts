import { AssistantError, type AssistantErrorCode } from "../../assistant-error.ts";

/** An answer that is none of 2xx, as the error that it means; its status tells whether to try again. */
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
