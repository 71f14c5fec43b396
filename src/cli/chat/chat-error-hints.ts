import { BerthError } from "../../base/errors.ts";
import { ChatError } from "../../client/rest/chat-client.ts";

/** Adds a hint to an error: the command that the user can try next. */
export function addChatHint(error: unknown, isConversation: boolean): unknown {
  if (!(error instanceof ChatError)) return error;
  const [message, hint] = describeChatError(error, isConversation);
  return new BerthError(error.code, message, { hint, cause: error });
}

function describeChatError(
  { reason, message }: ChatError,
  isConversation: boolean,
): [message: string, hint: string | undefined] {
  switch (reason) {
    // Either there is no model, or the companion does not reach the system instance; only the message says which.
    case "no_model":
      return [
        message,
        "`berth status` shows whether the assistant runs; `berth models start NAME` starts a model that `berth models ls --all` lists",
      ];
    case "model_not_found":
      return [
        message,
        "`berth models ls` lists the models of this machine, and `berth models start NAME` starts one; `berth remote` lists providers",
      ];
    case "context_length_exceeded":
      return [
        message,
        isConversation
          ? "/clear starts a new chat; `berth models start NAME --context TOKENS` enlarges the context"
          : "send less, or enlarge the context: `berth models start NAME --context TOKENS`",
      ];
    case "insufficient_memory":
      return [
        message,
        "`berth models stop NAME` frees memory; `berth models ls` shows the models in memory",
      ];
    case "model_unusable":
    case "engine_failed":
      return [message, "`berth models ls` and `berth models show NAME` show details"];
    case "consent_required":
      return [
        message,
        "`berth remote consent` lists what may be sent to a provider, and allows it",
      ];
    case "unauthorized":
      return [
        message,
        "set a key with `berth remote key ID`, or sign in with `berth remote login ID`; `berth remote` lists the providers",
      ];
    case "unreachable":
      return [message, "check the network and the provider's address, which `berth remote` shows"];
    case "rate_limited":
    case "provider_failed":
    case "cut_off":
    case "limits_exceeded":
    case "queue_full":
    case "shutting_down":
      return [message, "try again in a moment"];
    case "ledger_unavailable":
      return [
        message,
        "run `berth ledger verify` (with --user for the companion); if the disk is full, free some space",
      ];
    default:
      return [message, undefined];
  }
}
