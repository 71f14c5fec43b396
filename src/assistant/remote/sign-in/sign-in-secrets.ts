import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { SignInFailure } from "./sign-in-failure.ts";

/**
 * The largest length of a token. It is longer than any provider's tokens, and shorter than the limit of HTTP headers.
 */
const TOKEN_CHARACTERS_MAX = 8192;

/** Returns 128 random bits as text that is safe in a URL. */
export function randomPathSegment(): string {
  return randomBytes(16).toString("base64url");
}

/** Compares two texts in constant time, so that timing does not reveal where they differ. */
export function isEqualConstantTime(given: string, expected: string): boolean {
  return timingSafeEqual(computeDigest(given), computeDigest(expected));
}

function computeDigest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Returns the value if it is a token that an HTTP header can contain. Throws SignInFailure otherwise. */
export function parseToken(value: unknown): string {
  if (
    typeof value !== "string" ||
    value.length > TOKEN_CHARACTERS_MAX ||
    !/^[\x21-\x7e]+$/.test(value)
  )
    throw new SignInFailure("exchange_failed", "no_usable_token");
  return value;
}
