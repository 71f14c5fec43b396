import { BerthError, type ErrorCode } from "../../base/errors.ts";
import { BusCallError } from "../../dbus/port.ts";

interface ErrorMapping {
  readonly code: ErrorCode;
  /**
   * The message for the user; if undefined, the user sees the message of the bus or the companion. It is set if that
   * message could name D-Bus services, which users do not know.
   */
  readonly message?: string;
  readonly hint?: string;
}

const companionAbsent: ErrorMapping = {
  code: "assistant_unreachable",
  message: "the companion does not run on this session bus",
  hint: "start it with `berth assistant --user`",
};
const connectionLost: ErrorMapping = {
  code: "assistant_unreachable",
  message: "the connection to the session bus was lost",
  hint: "try again; `berth ledger tail --user` shows what was done",
};
const answerLate: ErrorMapping = {
  code: "timeout",
  message: "the companion did not answer in time",
  hint: "it may still be working; `berth ledger tail --user` shows what was done",
};
const versionMismatch: ErrorMapping = {
  code: "not_implemented",
  hint: "the running companion has another version: stop it, and start `berth assistant --user`",
};

/** The error that the command line reports for each D-Bus error name of the companion and of the bus. */
const errorMappings: Readonly<Record<string, ErrorMapping>> = {
  "org.freedesktop.DBus.Error.ServiceUnknown": companionAbsent,
  "org.freedesktop.DBus.Error.NameHasNoOwner": companionAbsent,
  "org.freedesktop.DBus.Error.Disconnected": connectionLost,
  "org.freedesktop.DBus.Error.NoReply": answerLate,
  "org.freedesktop.DBus.Error.Timeout": answerLate,
  "org.freedesktop.DBus.Error.TimedOut": answerLate,
  "org.freedesktop.DBus.Error.InvalidArgs": { code: "invalid_request" },
  "org.freedesktop.DBus.Error.AccessDenied": { code: "forbidden" },
  "org.freedesktop.DBus.Error.LimitsExceeded": {
    code: "too_many_requests",
    hint: "try again in a moment, or with a smaller request",
  },
  "org.freedesktop.DBus.Error.UnknownMethod": versionMismatch,
  "org.freedesktop.DBus.Error.UnknownInterface": versionMismatch,
  "org.freedesktop.DBus.Error.UnknownObject": versionMismatch,
  "org.freedesktop.DBus.Error.UnknownProperty": versionMismatch,
  "org.freedesktop.DBus.Error.NotSupported": { code: "not_implemented" },
  "dev.assistant.Error.NotFound": { code: "not_found" },
  "dev.assistant.Error.Exists": { code: "name_taken" },
  "dev.assistant.Error.LedgerUnavailable": {
    code: "assistant_unreachable",
    hint: "nothing was done; `berth ledger verify --user` checks the ledger",
  },
  "dev.assistant.Error.ConsentRequired": {
    code: "consent_required",
    hint: "nothing was sent; `berth remote consent` lists what may be sent to a provider, and allows it",
  },
  "dev.assistant.Error.Unauthorized": {
    code: "provider_denied",
    hint: "`berth remote key ID` sets another key, `berth remote login ID` signs in; `berth remote` lists the ids",
  },
  "dev.assistant.Error.Unreachable": {
    code: "provider_unreachable",
    hint: "check the network and the provider's address, which `berth remote` shows",
  },
  "dev.assistant.Error.BadResponse": {
    code: "provider_failed",
    hint: "try again in a moment; `berth remote` shows the provider's address",
  },
  "dev.assistant.Error.Busy": { code: "wrong_state" },
  "dev.assistant.Error.Cancelled": { code: "wrong_state" },
  "dev.assistant.Error.Failed": { code: "internal", hint: "see the companion's log" },
};

/**
 * The prefix of the D-Bus error names which report that the bus has started the companion, but that the companion
 * exited or never acquired its bus name.
 */
const SPAWN_ERROR_PREFIX = "org.freedesktop.DBus.Error.Spawn.";
const startFailed: ErrorMapping = {
  code: "assistant_unreachable",
  message: "the companion could not be started by the session bus",
  hint: "start it with `berth assistant --user`, which prints the reason",
};

/** Converts a BusCallError to a BerthError. Returns any other error unchanged. */
export function toBerthError(error: unknown): unknown {
  if (!(error instanceof BusCallError)) return error;
  const { busName } = error;
  const mapping = busName.startsWith(SPAWN_ERROR_PREFIX) ? startFailed : errorMappings[busName];
  // The message comes from another process. It is reduced to a single line, so that it cannot imitate further lines of
  // Berth's own output.
  const text = error.message.replace(/\s+/g, " ").trim();
  const message = mapping?.message ?? (text === "" ? busName : text);
  return new BerthError(mapping?.code ?? "internal", message, {
    hint: mapping?.hint,
    cause: error,
  });
}
