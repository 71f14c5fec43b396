import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { SignInFailure } from "./sign-in-failure.ts";

/** Longer than any provider's tokens, and shorter than the limit of headers. */
const TOKEN_CHARACTERS_MAX = 8192;

/** Returns a random text of 128 bits that is safe in a URL. */
export function randomPathSegment(): string {
  return randomBytes(16).toString("base64url");
}

/** Compares in constant time, so that timing does not reveal where two texts differ. */
export function isEqualConstantTime(given: string, expected: string): boolean {
  return timingSafeEqual(computeDigest(given), computeDigest(expected));
}

function computeDigest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Returns a token that is valid in a header. Throws SignInFailure. */
export function parseToken(value: unknown): string {
  if (
    typeof value !== "string" ||
    value.length > TOKEN_CHARACTERS_MAX ||
    !/^[\x21-\x7e]+$/.test(value)
  )
    throw new SignInFailure("exchange_failed", "no_usable_token");
  return value;
}
