import { BerthError } from "../../base/errors.ts";

/** The characters of image references; the engine checks the rest of the syntax. */
const CHARACTERS = /^[A-Za-z0-9][A-Za-z0-9._/:@-]*$/;

/** Rejects invalid image references before they become part of a URL. Throws `image_not_found`. */
export function assertReference(reference: string): string {
  if (CHARACTERS.test(reference) && !reference.includes("//") && !reference.includes(".."))
    return reference;
  throw new BerthError(
    "image_not_found",
    `"${reference.slice(0, 200)}" is not an image reference`,
    {
      hint: "write it as name:tag or registry.example.org/name:tag",
    },
  );
}

/**
 * Splits a reference for a pull. Without a tag it means `latest`: the engine would pull every tag. With a digest
 * the tag is ignored, as by the docker command.
 */
export function splitReference(reference: string): { image: string; tag: string } {
  assertReference(reference);
  const at = reference.indexOf("@");
  const named = at < 0 ? reference : reference.slice(0, at);
  const colon = named.indexOf(":", named.lastIndexOf("/") + 1);
  const image = colon < 0 ? named : named.slice(0, colon);
  if (at >= 0) return { image, tag: reference.slice(at + 1) };
  return { image, tag: colon < 0 ? "latest" : named.slice(colon + 1) };
}
