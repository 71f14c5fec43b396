import { BerthError } from "../../../base/errors.ts";
import type { AssistantControl, AssistantDaemon, AssistantReport } from "./port.ts";

const DISABLED_MESSAGE = "the assistant is off";

/**
 * Replaces the assistant if the assistant is turned off. Model files are downloaded nevertheless, but no model is
 * loaded.
 */
export const disabledAssistant: AssistantControl & AssistantDaemon = {
  report: (): AssistantReport => ({
    state: "off",
    url: null,
    pid: null,
    starts: 0,
    message: `${DISABLED_MESSAGE}; start the server with --assistant on`,
  }),
  state: refuse,
  inspect: refuse,
  load: refuse,
  unload: refuse,
  setContainerListeners: refuse,
};

async function refuse(): Promise<never> {
  throw new BerthError("assistant_unreachable", DISABLED_MESSAGE, {
    hint: "start the server with --assistant on",
  });
}
