import { BerthError, type ErrorCode } from "../../base/errors.ts";
import { BusCallError } from "../../dbus/port.ts";

interface ErrorMapping {
  readonly code: ErrorCode;
  /** What is told in place of the bus's own words, which name a service that nobody knows. */
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
  hint: "the same again; `berth ledger tail --user` tells what was done",
};
const answerLate: ErrorMapping = {
  code: "timeout",
  message: "the companion did not answer in time",
  hint: "it may still be at it; `berth ledger tail --user` tells what was done",
};
const versionMismatch: ErrorMapping = {
  code: "not_implemented",
  hint: "the companion that runs is of another version: end it, and start `berth assistant --user`",
};

/** Every error name that a companion or a bus answers with, as the command line tells it. */
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
    hint: "the same again in a moment, or less of it",
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
    hint: "nothing was done; `berth ledger verify --user` looks at the ledger",
  },
  "dev.assistant.Error.ConsentRequired": {
    code: "consent_required",
    hint: "nothing was sent; `berth remote consent` lists what may leave this machine, and allows it",
  },
  "dev.assistant.Error.Unauthorized": {
    code: "provider_denied",
    hint: "`berth remote key ID` sets another key, `berth remote login ID` signs in; `berth remote` lists both",
  },
  "dev.assistant.Error.Unreachable": {
    code: "provider_unreachable",
    hint: "check the address, which `berth remote` shows, and the network",
  },
  "dev.assistant.Error.BadResponse": {
    code: "provider_failed",
    hint: "the same again in a moment; `berth remote` shows whether the address is the right one",
  },
  "dev.assistant.Error.Busy": { code: "wrong_state" },
  "dev.assistant.Error.Cancelled": { code: "wrong_state" },
  "dev.assistant.Error.Failed": { code: "internal", hint: "see the companion's log" },
};

/** The bus started the companion, and it ended, or never took its name. */
const SPAWN_ERROR_PREFIX = "org.freedesktop.DBus.Error.Spawn.";
const startFailed: ErrorMapping = {
  code: "assistant_unreachable",
  message: "the companion could not be started by the session bus",
  hint: "start it with `berth assistant --user`, which says what is wrong",
};

/** What a rejection of SessionBus means to a person; anything but a BusCallError is passed on as it is. */
export function toBerthError(error: unknown): unknown {
  if (!(error instanceof BusCallError)) return error;
  const { busName } = error;
  const meaning = busName.startsWith(SPAWN_ERROR_PREFIX) ? startFailed : errorMappings[busName];
  // One line: whoever is on the bus wrote this, and must not be able to write our next line too.
  const text = error.message.replace(/\s+/g, " ").trim();
  const message = meaning?.message ?? (text === "" ? busName : text);
  return new BerthError(meaning?.code ?? "internal", message, {
    hint: meaning?.hint,
    cause: error,
  });
}
