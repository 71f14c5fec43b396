import { BerthError } from "../../../base/errors.ts";
import { retryLaterError } from "./hub-errors.ts";
import type { HttpResponse } from "./source-http.ts";

export interface HubQuery {
  readonly endpoint: URL;
  /** The repository `org/name`. */
  readonly id: string;
  readonly revision: string | undefined;
  /** The requested file; null if the listing was requested. */
  readonly file: string | null;
}

/**
 * Converts a response of a hub to an error. The X-Error-Code header is more specific than the status: a hub also
 * responds 401 for missing repositories, so that it does not reveal which private repositories exist.
 */
export function toHubError(response: HttpResponse, query: HubQuery, nowMs: number): BerthError {
  const { status, headers } = response;
  const code = getFirstValue(headers["x-error-code"]);
  if (status === 429 || status >= 500 || status < 400) return retryLaterError(response, nowMs);
  if (code === "GatedRepo") return gatedError(response, query);
  if (code === "RevisionNotFound") return noRevisionError(query);
  if (code === "EntryNotFound" && query.file !== null) return noFileError(query);
  const isElsewhere = response.url.origin !== query.endpoint.origin;
  if (isElsewhere && (status === 401 || status === 403))
    return new BerthError(
      "hub_denied",
      `${query.endpoint.host} redirects to ${response.url.host}, which requires a token; Berth sends none to another server`,
      {
        hint: `set HF_ENDPOINT to the URL of ${response.url.host} if this server may receive the token`,
      },
    );
  const message = getFirstValue(headers["x-error-message"]) ?? "";
  if (status === 401)
    return response.isAuthorised ? refusedTokenError(query) : hiddenOrAbsentError(query);
  if (status === 403) return forbiddenError(query, message);
  if (status === 404 || status === 410)
    return code === undefined && query.file !== null
      ? noFileError(query)
      : absentRepositoryError(query, response.isAuthorised);
  return new BerthError(
    "hub_not_found",
    `${describeQuery(query)}: the hub refused the request with HTTP ${status}`,
    { hint: "check source and revision" },
  );
}

function gatedError(response: HttpResponse, query: HubQuery): BerthError {
  const page = `${query.endpoint.href.replace(/\/$/, "")}/${query.id}`;
  if (!response.isAuthorised)
    return new BerthError(
      "hub_denied",
      `${describeQuery(query)} is gated: its files need a token`,
      {
        hint: `accept the repository's terms at ${page}, and set credential to a Secret with a token of the account that accepted them, or set HF_TOKEN`,
      },
    );
  if (response.status === 401) return refusedTokenError(query);
  const message = getFirstValue(response.headers["x-error-message"]) ?? "";
  return /await|pending/i.test(message)
    ? new BerthError(
        "hub_denied",
        `${describeQuery(query)} is gated, and its authors have not yet granted the request for access`,
        { hint: `see ${page}; retry once access is granted` },
      )
    : new BerthError(
        "hub_denied",
        `${describeQuery(query)} is gated, and the account of the token has no access to it`,
        {
          hint: `accept the repository's terms at ${page} with the account of the token, and retry`,
        },
      );
}

/**
 * Creates the error for HTTP 401 to a request with a token: the hub does not know the token. To a valid token without
 * access, a hub responds 403 or 404 instead.
 */
function refusedTokenError(query: HubQuery): BerthError {
  return new BerthError("hub_denied", `${query.endpoint.host} does not accept the token`, {
    hint: "the token may be mistyped, expired or revoked: create a new one, and save it in the Secret of credential or in HF_TOKEN",
  });
}

/**
 * Creates the error for a repository that is private or missing. The hint begins with the most frequent cause, a wrong
 * name.
 */
function hiddenOrAbsentError(query: HubQuery): BerthError {
  return new BerthError(
    "hub_not_found",
    `${describeQuery(query)} does not exist, or is private: without a token, the hub does not say which`,
    {
      hint: "check the spelling of source; for a private repository, set credential to a Secret with a token, or set HF_TOKEN",
    },
  );
}

function absentRepositoryError(query: HubQuery, authorised: boolean): BerthError {
  return new BerthError("hub_not_found", `there is no repository ${describeQuery(query)}`, {
    hint: authorised
      ? "check the spelling of source; the hub gives the same response for private repositories that the token may not read"
      : "check the spelling of source",
  });
}

function forbiddenError(query: HubQuery, message: string): BerthError {
  return /disabled/i.test(message)
    ? new BerthError("hub_denied", `${describeQuery(query)} has been disabled by the hub`, {
        hint: "choose another repository",
      })
    : new BerthError("hub_denied", `the token may not read ${describeQuery(query)}`, {
        hint: "a fine-grained token needs read access to this repository, or to public gated repositories",
      });
}

function noRevisionError(query: HubQuery): BerthError {
  const { revision } = query;
  return new BerthError(
    "hub_not_found",
    revision === undefined
      ? `${query.id} has no commit yet`
      : `${query.id} has no branch, tag or commit ${revision}`,
    {
      hint:
        revision === undefined
          ? "choose another repository"
          : "correct revision, or omit it for the main branch",
    },
  );
}

function noFileError(query: HubQuery): BerthError {
  return new BerthError("hub_not_found", `${describeQuery(query)} has no file ${query.file}`, {
    hint: "set file to the path of a file in the repository",
  });
}

function describeQuery({ id, revision }: HubQuery): string {
  return revision === undefined ? id : `${id} at ${revision}`;
}

function getFirstValue(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
