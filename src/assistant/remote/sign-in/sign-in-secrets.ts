import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { SignInFailure } from "./sign-in-failure.ts";

/** Longer than any that providers give out, shorter than what a header may hold. */
const TOKEN_CHARACTERS_MAX = 8192;

/** Of 128 bits, as it can stand in a URL. */
export function randomPathSegment(): string {
  return randomBytes(16).toString("base64url");
}

/** In a time that tells nothing of where they differ. */
export function isEqualConstantTime(given: string, expected: string): boolean {
  return timingSafeEqual(computeDigest(given), computeDigest(expected));
}

function computeDigest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** A token that can stand in a header. Throws SignInFailure. */
export function parseToken(value: unknown): string {
  if (
    typeof value !== "string" ||
    value.length > TOKEN_CHARACTERS_MAX ||
    !/^[\x21-\x7e]+$/.test(value)
  )
    throw new SignInFailure("exchange_failed", "no_usable_token");
  return value;
}
