import { BerthError } from "../../base/errors.ts";
import { ChatError } from "../../client/rest/chat-client.ts";

/** The same failure with the command that a person at a terminal would try next. */
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
    case "no_model":
      return [
        "the assistant has no model to talk to",
        "`berth models start NAME` starts one of `berth models ls --all`; `berth models pull ORG/NAME` gets one",
      ];
    case "model_not_found":
      return [
        message,
        "`berth models ls` lists those of this machine, and `berth models start NAME` starts one; `berth remote` lists providers",
      ];
    case "context_length_exceeded":
      return [
        message,
        isConversation
          ? "/clear begins anew; `berth models start NAME --context TOKENS` gives it more"
          : "send less, or give it more: `berth models start NAME --context TOKENS`",
      ];
    case "insufficient_memory":
      return [message, "`berth models stop NAME` makes room; `berth models ls` shows who has it"];
    case "model_unusable":
    case "engine_failed":
      return [message, "`berth models ls` and `berth models show NAME` tell more"];
    case "consent_required":
      return [message, "`berth remote consent` lists what may leave this machine, and allows it"];
    case "unauthorized":
      return [
        message,
        "`berth remote key ID`, or `berth remote login ID`; `berth remote` lists them",
      ];
    case "unreachable":
      return [message, "check the address, which `berth remote` shows, and the network"];
    case "rate_limited":
    case "provider_failed":
    case "cut_off":
    case "limits_exceeded":
    case "queue_full":
    case "shutting_down":
      return [message, "ask again in a moment"];
    case "ledger_unavailable":
      return [
        message,
        "`berth ledger verify` (with --user: the companion's); where the disk is full, make room",
      ];
    default:
      return [message, undefined];
  }
}
