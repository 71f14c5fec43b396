import { ProtocolError, SdkError, SdkErrorCode } from "@modelcontextprotocol/client";
import { ToolAppError } from "../tool-apps.ts";
import { sanitizeMessage } from "./sanitize-message.ts";

/** Converts an SDK error from a request to an app into a ToolAppError. */
export function toRequestFailure(appId: string, error: unknown): ToolAppError {
  if (error instanceof ToolAppError) return error;
  if (error instanceof ProtocolError) {
    const message = `${appId} refused: ${sanitizeMessage(error.message) || `error ${error.code}`}`;
    return new ToolAppError("tool_error", message, { cause: error });
  }
  if (error instanceof SdkError) {
    switch (error.code) {
      case SdkErrorCode.RequestTimeout:
        return new ToolAppError("timeout", `${appId} did not answer in time`, { cause: error });
      case SdkErrorCode.ConnectionClosed:
      case SdkErrorCode.NotConnected:
      case SdkErrorCode.SendFailed:
        return connectionLostError(appId, error);
      case SdkErrorCode.UnsupportedResultType:
        return new ToolAppError(
          "tool_error",
          `${appId} asks for more input instead of answering, which this assistant does not support`,
          { cause: error },
        );
      default:
    }
  }
  const message = `${appId} sent an answer that is not a valid result of this request`;
  return new ToolAppError("bad_result", message, { cause: error });
}

export function connectionLostError(appId: string, cause?: unknown): ToolAppError {
  const message = `${appId} closed the connection before it answered`;
  return new ToolAppError("transport_closed", message, { cause });
}
