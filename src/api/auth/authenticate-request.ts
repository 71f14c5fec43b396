import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import { BerthError } from "../../base/errors.ts";
import { getHostHeaders, isLoopbackHost } from "../../base/http/loopback-host.ts";
import type { TokenRecord, TokenScope, TokenStore } from "../../store/store.ts";
import type { Access, ApiCaller } from "../api-context.ts";

const scopeRank: Readonly<Record<TokenScope, number>> = { read: 0, write: 1, admin: 2 };

/**
 * Returns the caller of a request, or throws `unauthorized` or `forbidden`. Tokens are looked up by their hash, so
 * that the duration reveals nothing about them.
 */
export function authenticateRequest(
  request: FastifyRequest,
  access: Access,
  tokens: TokenStore,
): ApiCaller | null {
  if (access === "public") return null;
  if (access === "loopback" && request.headers.authorization === undefined) {
    if (isLocal(request)) {
      if (getHostHeaders(request.raw.rawHeaders).every(isLoopbackHost)) return null;
      throw unauthorizedError(
        "a request whose Host header is not localhost or 127.0.0.1 needs a token",
      );
    }
    throw unauthorizedError("a request from another machine needs a token");
  }
  const caller = requireCaller(request, tokens);
  const needed = access === "loopback" ? "read" : access;
  if (scopeRank[caller.scope] < scopeRank[needed]) {
    throw new BerthError(
      "forbidden",
      `the request needs a token with the scope ${needed}; the given token has the scope ${caller.scope}`,
    );
  }
  return caller;
}

function requireCaller(request: FastifyRequest, tokens: TokenStore): ApiCaller {
  const header = request.headers.authorization;
  if (header === undefined) throw unauthorizedError("the request needs a token");
  // No token of Berth is longer than 512 characters, so the pattern refuses a longer one before it is hashed.
  const match = /^Bearer +([A-Za-z0-9._~+/=-]{1,512})$/i.exec(header.trim());
  if (match?.[1] === undefined)
    throw unauthorizedError("the Authorization header is not a Bearer token");
  const record = tokens.find(match[1]);
  if (!record) throw unauthorizedError("the token is unknown, revoked or expired");
  return { name: getActorName(record), scope: record.scope, tokenId: record.id };
}

function getActorName(record: TokenRecord): string {
  return record.kind === "session" ? "user:admin" : `token:${record.name}`;
}

function unauthorizedError(message: string): BerthError {
  return new BerthError("unauthorized", message, {
    hint: "get a token with POST /api/auth/login and send it as Authorization: Bearer <token>",
  });
}

/** Returns true for requests from this machine, unless a reverse proxy forwarded them, which its headers show. */
function isLocal(request: FastifyRequest): boolean {
  const { headers, ip } = request;
  if (headers.forwarded !== undefined || headers["x-forwarded-for"] !== undefined) return false;
  const address = ip.replace(/^::ffff:/i, "");
  return address === "::1" || (isIP(address) === 4 && address.startsWith("127."));
}
