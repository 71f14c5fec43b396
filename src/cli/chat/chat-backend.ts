import { BerthError } from "../../base/errors.ts";
import type {
  ChatClient,
  ChatEvent,
  ChatRequest,
  ServedModel,
} from "../../client/rest/chat-client.ts";
import { chooseModel } from "./choose-model.ts";

/** The server that answers a chat: the assistant over HTTP, or the companion over the session bus. */
export interface ChatBackend {
  listModels(): Promise<readonly ServedModel[]>;

  /**
   * Finds a model by name, or the default model if no name is given. Rejects with NotFoundError if no model is found.
   */
  chooseModel(name: string | undefined): Promise<ServedModel>;

  /**
   * Streams one answer. Rejects with ChatError, with BerthError `assistant_unreachable`, or with the signal's reason.
   */
  answer(request: ChatRequest, signal: AbortSignal): AsyncIterable<ChatBackendEvent>;
}

/** An event of an answer. `end` or `denied` is the last event. */
export type ChatBackendEvent =
  | ChatEvent
  /** The user must be asked before the answer continues. `ask` resolves even if the user refuses. */
  | { readonly type: "question"; readonly ask: () => Promise<void> }
  /** The user has refused a permission that the answer needs. */
  | { readonly type: "denied"; readonly message: string };

/** Creates the backend of a chat with the assistant of this machine, which has local models only. */
export function createHttpChatBackend(client: ChatClient): ChatBackend {
  return {
    listModels: () => client.listModels(),
    chooseModel: async (name) => {
      if (name !== undefined && isRemote(name))
        throw new BerthError(
          "invalid_request",
          `"${name}" is a model of a remote provider; this chat has the models of this machine only`,
          {
            hint: `start another chat with your companion: berth chat ${name}`,
          },
        );
      return chooseModel(await client.listModels(), name);
    },
    answer: (request, signal) => client.chat(request, signal),
  };
}

/** Returns true for a model of a provider, `remote:<provider>:<model>`. */
export function isRemote(name: string): boolean {
  return name.startsWith("remote:");
}
