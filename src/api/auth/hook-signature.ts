import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/**
 * Returns true if the caller of a webhook knows the secret. GitHub, Gitea and Forgejo sign the body (HMAC with
 * SHA-256); GitLab sends the secret itself. One valid header is enough, because some servers send several. The
 * comparison takes constant time.
 */
export function isSignedHook(headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  const expected = createHmac("sha256", secret).update(body).digest("hex");
  const signatures = [
    getHeaderText(headers["x-hub-signature-256"])?.replace(/^sha256=/i, ""),
    getHeaderText(headers["x-gitea-signature"]),
    getHeaderText(headers["x-forgejo-signature"]),
  ];
  const isSigned = signatures.some(
    (given) => given !== undefined && isEqual(given.toLowerCase(), expected),
  );
  const token = getHeaderText(headers["x-gitlab-token"]);
  return isSigned || (token !== undefined && isEqual(token, secret));
}

/** Compares digests of equal length, so that not even the length of the secret can be measured. */
function isEqual(given: string, expected: string): boolean {
  return timingSafeEqual(sha256(given), sha256(expected));
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function getHeaderText(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" && header !== "" ? header : undefined;
}
