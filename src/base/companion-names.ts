/**
 * The names of the companion on the session bus, in the order in which it claims them: when the last name has an
 * owner, every name has one.
 */
export const companionBusNames = [
  "dev.assistant.Agent1",
  "dev.assistant.Context1",
  "dev.assistant.Inference1",
  "dev.assistant.Remoted",
  "dev.assistant.Overlay1",
] as const;

/** Name of the systemd user unit that runs the companion. */
export const COMPANION_UNIT = "berth-companion.service";
