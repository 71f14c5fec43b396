import { BerthError } from "../../base/errors.ts";
import type {
  ChatClient,
  ChatEvent,
  ChatRequest,
  ServedModel,
} from "../../client/rest/chat-client.ts";
import { chooseModel } from "./choose-model.ts";

/** Whom one talks to, over whatever way: the assistant over HTTP, or the companion over the session bus. */
export interface ChatBackend {
  listModels(): Promise<readonly ServedModel[]>;

  /** The model that a person means; the default one without a name. Rejects with NotFoundError. */
  chooseModel(name: string | undefined): Promise<ServedModel>;

  /** One answer, as it comes. Rejects with ChatError, `assistant_unreachable`, and the abort of the signal. */
  answer(request: ChatRequest, signal: AbortSignal): AsyncIterable<ChatBackendEvent>;
}

/** What comes of an answer. It ends with `end` or with `denied`. */
export type ChatBackendEvent =
  | ChatEvent
  /** A person is to be asked before it goes on; `ask` never rejects because of the answer. */
  | { readonly type: "question"; readonly ask: () => Promise<void> }
  /** A person did not allow what it needs. */
  | { readonly type: "denied"; readonly message: string };

/** With the assistant of this machine, which knows models of this machine only. */
export function createHttpChatBackend(client: ChatClient): ChatBackend {
  return {
    listModels: () => client.listModels(),
    chooseModel: async (name) => {
      if (name !== undefined && isRemote(name))
        throw new BerthError("invalid_request", `"${name}" is a model of a provider`, {
          hint: `berth chat ${name}: with your companion, in a talk of its own`,
        });
      return chooseModel(await client.listModels(), name);
    },
    answer: (request, signal) => client.chat(request, signal),
  };
}

/** A model of a provider: `remote:<provider>:<model>`. */
export function isRemote(name: string): boolean {
  return name.startsWith("remote:");
}
