import { BerthError, messageOf, NotFoundError } from "../../../base/errors.ts";
import { overlayModels } from "../../../client/bus/overlay-wire.ts";
import { modelIds } from "../../../client/bus/remote-wire.ts";
import type { ServedModel } from "../../../client/rest/chat.ts";
import type { Cli } from "../../cli.ts";
import type { Companion } from "../../companion/connect.ts";
import { shownLine } from "../../companion/untrusted-text.ts";
import { isRemote, type Talk } from "../talk.ts";
import type { Person } from "./answer-question.ts";
import { playTurn } from "./play-turn.ts";

/** 256 of a history, and the one that is new. */
const MESSAGES_MAX = 257;

/** A talk with the companion, over the session bus: the chat lane, with consent inside the turn. */
export function talkOverBus(
  cli: Cli,
  { overlay, remote }: Companion,
  person: Person,
  signal: AbortSignal,
): Talk {
  const standard = async () => overlayModels(await overlay.status(signal));
  return {
    models: async () => {
      const { standard: local, providers } = await standard();
      const found = local === "" ? [] : [model(local)];
      for (const provider of providers) {
        try {
          const ids = modelIds(await remote.listModels(provider, signal));
          found.push(...ids.map((id) => model(shownLine(`remote:${provider}:${id}`))));
        } catch (error) {
          // One that does not answer is no reason to hide the others.
          if (!(error instanceof BerthError)) throw error;
          cli.note(`${shownLine(provider)}: ${shownLine(messageOf(error))}`);
        }
      }
      return found;
    },
    choose: async (name) => {
      if (name !== undefined) return model(name);
      const { standard: local } = await standard();
      if (local === "")
        throw new NotFoundError(
          "the companion has no model of this machine to talk to",
          "`berth models start NAME` starts one; -m remote:PROVIDER:MODEL takes one of a provider",
        );
      return model(local);
    },
    answer: ({ model: name, messages }, stopping) => {
      if (messages.length > MESSAGES_MAX)
        throw new BerthError(
          "invalid_request",
          `this talk is longer than the ${MESSAGES_MAX} messages that the companion takes`,
          { hint: "/clear begins anew" },
        );
      const last = messages.at(-1);
      const request = {
        prompt: last?.content ?? "",
        lane: "chat",
        myStuff: false,
        model: name,
        history: messages.slice(0, -1),
      } as const;
      return playTurn(cli, overlay, request, person, {}, stopping);
    },
  };
}

/** Whether it is there, and how large it is, shows when it is asked. */
function model(id: string): ServedModel {
  const kind = isRemote(id) ? "remote" : "local";
  return { id, aliases: [], kind, state: "resident", context_length: null };
}
