import { BerthError } from "../../base/errors.ts";
import { parseImageReference } from "../../resources/image-reference.ts";

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
      hint: "write the image as name:tag or registry.example.org/name:tag",
    },
  );
}

/**
 * Splits a reference for a pull. A reference without a tag means `latest`, because the engine would otherwise pull
 * every tag. If there is a digest, the tag is ignored, as in the docker command.
 */
export function splitReference(reference: string): { image: string; tag: string } {
  const { repository, tag, digest } = parseImageReference(assertReference(reference));
  return { image: repository, tag: digest ?? tag ?? "latest" };
}
