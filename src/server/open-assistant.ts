import type { Cleanup } from "../base/cleanup.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import { type Config, createChildEnvironment } from "../config/config.ts";
import { AssistantSupervisor } from "../controller/models/assistant/assistant-supervisor.ts";
import { ControlClient } from "../controller/models/assistant/control-client.ts";
import { ControlTransport } from "../controller/models/assistant/control-transport.ts";
import { disabledAssistant } from "../controller/models/assistant/disabled-assistant.ts";
import type {
  AssistantControl,
  AssistantDaemon,
  AssistantReport,
} from "../controller/models/assistant/port.ts";
import type { Store } from "../store/store.ts";

/**
 * Creates the supervisor of the assistant; `start` starts the assistant. The supervisor is disabled if the
 * configuration turns the assistant off.
 */
export function openAssistant(options: {
  readonly config: Config;
  /** The command that starts this version of Berth: the program, followed by its first arguments. */
  readonly program: readonly string[];
  readonly starting: Cleanup;
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  readonly onChange: (report: AssistantReport) => void;
}): {
  readonly control: AssistantControl;
  readonly daemon: AssistantDaemon;
  readonly start: () => void;
  /** Ends the assistant, and resolves when it has ended. The Cleanup `options.starting` also calls this method. */
  readonly end: () => Promise<void>;
} {
  const { config, starting, store, clock, logger, version } = options;
  const { assistant, logFormat, logLevel } = config;
  if (!assistant)
    return {
      control: disabledAssistant,
      daemon: disabledAssistant,
      start: () => {},
      end: async () => {},
    };
  const calls = new ControlTransport({ dataDir: assistant.dataDir });
  starting.defer(() => calls[Symbol.dispose]());
  const supervisor = new AssistantSupervisor({
    program: options.program,
    settings: assistant,
    owner: store.instanceId,
    environment: createChildEnvironment(),
    version,
    logFormat,
    logLevel,
    transport: calls,
    clock,
    logger,
    onChange: (report, event) => {
      if (event) store.events.record({ kind: null, name: "", ...event });
      options.onChange(report);
    },
  });
  let ended: Promise<void> | undefined;
  const end = () => (ended ??= supervisor[Symbol.asyncDispose]());
  starting.defer(end);
  const start = () => supervisor.start();
  return { control: new ControlClient({ calls }), daemon: supervisor, start, end };
}
