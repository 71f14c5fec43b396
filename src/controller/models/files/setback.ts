import { type BerthError, isAbort, messageOf } from "../../../base/errors.ts";
import { systemCode, unreachable } from "./failures.ts";

/** A request has failed in a way that another one may not. `final` is what it comes to when none succeeds. */
export class Setback extends Error {
  readonly final: BerthError;
  /** The server is overloaded: fewer connections, and not before this time is over. */
  readonly busy: { readonly retryAfterMs: number | undefined } | undefined;

  constructor(final: BerthError, busy?: { readonly retryAfterMs: number | undefined }) {
    super(final.message, { cause: final });
    this.final = final;
    this.busy = busy;
  }
}

/** The file at the source is another one than before: what has come is of no use. */
export class SourceChanged extends Error {
  readonly sizeBytes: number | null;

  constructor(sizeBytes: number | null) {
    super("the file has changed at its source");
    this.sizeBytes = sizeBytes;
  }
}

/** What a server says of the bytes that it sends cannot be right, or is not what it was asked for. */
export class Lie extends Setback {
  constructor(host: string, why: string) {
    super(unreachable(`what ${host} sends cannot be right: ${why}`));
  }
}

/** The server cannot, or does not rightly, send parts: one stream from the beginning has to do. */
export class RangesRefused extends Error {}

/** Errors of sockets and of TLS, as people may read them. */
export function ofNetwork(host: string, error: unknown): Setback {
  const code = systemCode(error);
  const why = isAbort(error) ? "the connection was closed" : networkReason(code, error);
  const hint = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code ?? "")
    ? "its certificate is not trusted here: name the file of its authority in NODE_EXTRA_CA_CERTS"
    : undefined;
  return new Setback(unreachable(`${host} cannot be reached: ${why}`, error, hint));
}

function networkReason(code: string | undefined, error: unknown): string {
  switch (code) {
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "its name is not known here (DNS)";
    case "ECONNREFUSED":
      return "nothing listens there";
    case "ECONNRESET":
    case "EPIPE":
      return "the connection was cut";
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "the network does not lead there";
    default:
      return code ?? messageOf(error);
  }
}
