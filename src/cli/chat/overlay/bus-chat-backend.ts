import { BerthError, getErrorMessage, NotFoundError } from "../../../base/errors.ts";
import { parseOverlayModels } from "../../../client/bus/overlay-wire.ts";
import { parseModelIds } from "../../../client/bus/remote-wire.ts";
import type { ServedModel } from "../../../client/rest/chat-client.ts";
import type { Cli } from "../../cli.ts";
import type { Companion } from "../../companion/connect-companion.ts";
import { sanitizeLine } from "../../companion/untrusted-text.ts";
import { type ChatBackend, isRemote } from "../chat-backend.ts";
import type { Prompter } from "./answer-question.ts";
import { runTurn } from "./run-turn.ts";

/** A request contains at most 256 earlier messages in addition to the new one. */
const MESSAGES_MAX = 257;

/**
 * Creates the backend of a chat with the companion over the session bus. The turns of the chat are queries in the lane
 * `chat`, which uses no tools. The user is asked for consent during a turn.
 */
export function createBusChatBackend(
  cli: Cli,
  { overlay, remote }: Companion,
  prompter: Prompter,
  signal: AbortSignal,
): ChatBackend {
  const readModels = async () => parseOverlayModels(await overlay.status(signal));
  return {
    listModels: async () => {
      const { standard: local, standardError, providers } = await readModels();
      const found = local === "" ? [] : [toServedModel(local)];
      if (standardError !== "") cli.note(sanitizeLine(standardError));
      for (const provider of providers) {
        try {
          const ids = parseModelIds(await remote.listModels(provider, signal));
          found.push(...ids.map((id) => toServedModel(sanitizeLine(`remote:${provider}:${id}`))));
        } catch (error) {
          // A provider that does not answer must not hide the models of the other providers.
          if (!(error instanceof BerthError)) throw error;
          cli.note(`${sanitizeLine(provider)}: ${sanitizeLine(getErrorMessage(error))}`);
        }
      }
      return found;
    },
    chooseModel: async (name) => {
      if (name !== undefined) return toServedModel(name);
      const { standard: local, standardError } = await readModels();
      if (local === "")
        throw new NotFoundError(
          `the companion has no local chat model${standardError === "" ? "" : `: ${sanitizeLine(standardError)}`}`,
          "`berth status` shows whether the assistant runs; `berth models start NAME` starts a model; -m remote:PROVIDER:MODEL selects a model of a provider",
        );
      return toServedModel(local);
    },
    answer: ({ model: name, messages }, stopping) => {
      if (messages.length > MESSAGES_MAX)
        throw new BerthError(
          "invalid_request",
          `the chat has more than ${MESSAGES_MAX} messages, the limit of the companion`,
          { hint: "/clear starts a new chat" },
        );
      const last = messages.at(-1);
      const request = {
        prompt: last?.content ?? "",
        lane: "chat",
        myStuff: false,
        model: name,
        history: messages.slice(0, -1),
      } as const;
      return runTurn(cli, overlay, request, prompter, {}, stopping);
    },
  };
}

/** Describes a model by its id, without asking its provider if the model exists. */
function toServedModel(id: string): ServedModel {
  const kind = isRemote(id) ? "remote" : "local";
  return { id, aliases: [], kind, state: "resident", context_length: null };
}
