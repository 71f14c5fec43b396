import type { IncomingMessage, ServerResponse } from "node:http";
import type { Repository } from "./repository.ts";

/** The hub's format of a refusal: a header contains the code, and another header and the body contain the message. */
export interface Refusal {
  readonly status: number;
  readonly code: string | undefined;
  readonly message: string;
}

export function refuse(response: ServerResponse, refusal: Refusal): void {
  const { status, code, message } = refusal;
  response
    .writeHead(status, {
      "content-type": "application/json; charset=utf-8",
      ...(code === undefined ? {} : { "x-error-code": code }),
      "x-error-message": message,
      ...(status === 401
        ? { "www-authenticate": 'Bearer realm="Authentication required", charset="UTF-8"' }
        : {}),
    })
    .end(JSON.stringify({ error: message }));
}

/** The kind of a request's sender: without a token, with the token of the hub's account, or with an invalid token. */
export type Asker = "anonymous" | "account" | "invalid";

export function identifyAsker(request: IncomingMessage, token: string): Asker {
  const { authorization } = request.headers;
  if (authorization === undefined) return "anonymous";
  return authorization === `Bearer ${token}` ? "account" : "invalid";
}

/**
 * Returns the refusal of a request for the list of files; undefined if access is allowed. Everyone may read the list
 * of a gated repository.
 */
export function listingRefusal(
  repository: Repository | undefined,
  asker: Asker,
): Refusal | undefined {
  if (asker === "invalid")
    return {
      status: 401,
      code: undefined,
      message: "Invalid credentials in Authorization header",
    };
  const seen =
    repository && (!repository.private || (asker === "account" && repository.authorised));
  if (!repository || !seen)
    return asker === "anonymous"
      ? { status: 401, code: "RepoNotFound", message: "Invalid username or password." }
      : { status: 404, code: "RepoNotFound", message: "Repository not found" };
  if (repository.disabled)
    return { status: 403, code: undefined, message: "Access to this resource is disabled." };
  return undefined;
}

/** Returns the refusal of a request for a file; undefined if access is allowed. */
export function fileRefusal(repository: Repository, asker: Asker): Refusal | undefined {
  if (repository.gated === false) return undefined;
  const restricted = `Access to model ${repository.id} is restricted`;
  if (asker !== "account")
    return {
      status: 401,
      code: "GatedRepo",
      message: `${restricted}. You must have access to it and be authenticated to access it. Please log in.`,
    };
  if (repository.authorised) return undefined;
  return {
    status: 403,
    code: "GatedRepo",
    message: `${restricted} and you are not in the authorized list. Visit the model's page to ask for access.`,
  };
}

export function revisionNotFound(revision: string): Refusal {
  return { status: 404, code: "RevisionNotFound", message: `Invalid rev id: ${revision}` };
}

export const entryNotFound: Refusal = {
  status: 404,
  code: "EntryNotFound",
  message: "Entry not found",
};
