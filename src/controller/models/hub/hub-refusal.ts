import { BerthError } from "../../../base/errors.ts";
import { notNow } from "./failures.ts";
import type { HttpAnswer } from "./http.ts";

export interface Asked {
  readonly endpoint: URL;
  /** `org/name` */
  readonly id: string;
  readonly revision: string | undefined;
  /** Null where the listing was asked for. */
  readonly file: string | null;
}

/**
 * The error that a hub's answer means. By the X-Error-Code header, which says more than the status: a hub
 * answers 401 also for what is not there, so that nobody learns which private repositories there are.
 */
export function hubRefusal(answer: HttpAnswer, asked: Asked, nowMs: number): BerthError {
  const { status, headers } = answer;
  const code = textOf(headers["x-error-code"]);
  if (status === 429 || status >= 500 || status < 400) return notNow(answer, nowMs);
  if (code === "GatedRepo") return gated(answer, asked);
  if (code === "RevisionNotFound") return noRevision(asked);
  if (code === "EntryNotFound" && asked.file !== null) return noFile(asked);
  const isElsewhere = answer.url.origin !== asked.endpoint.origin;
  if (isElsewhere && (status === 401 || status === 403))
    return new BerthError(
      "hub_denied",
      `${asked.endpoint.host} redirects to ${answer.url.host}, which wants a token; none is sent to another server`,
      { hint: "set HF_ENDPOINT to that server, if it is meant to have the token" },
    );
  const message = textOf(headers["x-error-message"]) ?? "";
  if (status === 401) return answer.authorised ? refusedToken(asked) : hiddenOrAbsent(asked);
  if (status === 403) return forbidden(asked, message);
  if (status === 404 || status === 410)
    return code === undefined && asked.file !== null
      ? noFile(asked)
      : absent(asked, answer.authorised);
  return new BerthError(
    "hub_not_found",
    `${title(asked)}: the hub refuses the request with HTTP ${status}`,
    { hint: "check source and revision" },
  );
}

function gated(answer: HttpAnswer, asked: Asked): BerthError {
  const page = `${asked.endpoint.href.replace(/\/$/, "")}/${asked.id}`;
  if (!answer.authorised)
    return new BerthError("hub_denied", `${title(asked)} is gated: its files need a token`, {
      hint: `accept its terms at ${page}, and name a Secret with a token of that account in credential, or set HF_TOKEN`,
    });
  if (answer.status === 401) return refusedToken(asked);
  const message = textOf(answer.headers["x-error-message"]) ?? "";
  return /await|pending/i.test(message)
    ? new BerthError(
        "hub_denied",
        `${title(asked)} is gated, and its authors have not yet granted the request for access`,
        { hint: `see ${page}; retry once it is granted` },
      )
    : new BerthError(
        "hub_denied",
        `${title(asked)} is gated, and the account of the token has no access to it`,
        { hint: `accept its terms at ${page} with that account, and retry` },
      );
}

/** With a token that it accepts, a hub answers 403 of what is not for its account, and 404 of what is not there. */
function refusedToken(asked: Asked): BerthError {
  return new BerthError("hub_denied", `${asked.endpoint.host} does not accept the token`, {
    hint: "it may be mistyped, expired or revoked: make a new one, and put it into the Secret of credential, or into HF_TOKEN",
  });
}

/** Most often the name is wrong, which is what the hub's own clients take it for. */
function hiddenOrAbsent(asked: Asked): BerthError {
  return new BerthError(
    "hub_not_found",
    `${title(asked)} does not exist, or is private: without a token, the hub does not say which`,
    {
      hint: "check the spelling of source; for a private repository, name a Secret with a token in credential, or set HF_TOKEN",
    },
  );
}

function absent(asked: Asked, authorised: boolean): BerthError {
  return new BerthError("hub_not_found", `there is no repository ${title(asked)}`, {
    hint: authorised
      ? "check the spelling of source; the hub says the same of private repositories that the token may not read"
      : "check the spelling of source",
  });
}

function forbidden(asked: Asked, message: string): BerthError {
  return /disabled/i.test(message)
    ? new BerthError("hub_denied", `${title(asked)} has been disabled by the hub`, {
        hint: "choose another repository",
      })
    : new BerthError("hub_denied", `the token may not read ${title(asked)}`, {
        hint: "a fine-grained token needs read access to this repository, or to public gated ones",
      });
}

function noRevision(asked: Asked): BerthError {
  const { revision } = asked;
  return new BerthError(
    "hub_not_found",
    revision === undefined
      ? `${asked.id} has no commit yet`
      : `${asked.id} has no branch, tag or commit ${revision}`,
    {
      hint:
        revision === undefined
          ? "choose another repository"
          : "correct revision, or leave it out for the main branch",
    },
  );
}

function noFile(asked: Asked): BerthError {
  return new BerthError("hub_not_found", `${title(asked)} has no file ${asked.file}`, {
    hint: "correct file; it is its path in the repository",
  });
}

function title({ id, revision }: Asked): string {
  return revision === undefined ? id : `${id} at ${revision}`;
}

function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
