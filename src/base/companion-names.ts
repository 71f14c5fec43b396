/**
 * The names of the companion on the session bus, in the order in which it takes them: whoever waits for the
 * last one finds them all.
 */
export const companionBusNames = [
  "dev.assistant.Agent1",
  "dev.assistant.Context1",
  "dev.assistant.Inference1",
  "dev.assistant.Remoted",
  "dev.assistant.Overlay1",
] as const;

/** The systemd user unit that runs it. */
export const COMPANION_UNIT = "berth-companion.service";
