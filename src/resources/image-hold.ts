import { IMAGE_HOLD_ANNOTATION, type Resource } from "./resource.ts";

/** Formats the value of the annotation that pins an App to an image. */
export function formatImageHold(reference: string, id: string): string {
  return `${reference} ${id}`;
}

/** Returns the annotation that pins an App to one image of `reference`; null if the App has none for that reference. */
export function readImageHold(
  { metadata }: Pick<Resource<"App">, "metadata">,
  reference: string,
): { readonly value: string; readonly id: string } | null {
  const value = metadata.annotations[IMAGE_HOLD_ANNOTATION] ?? "";
  const [held, id] = value.split(" ");
  return held === reference && id ? { value, id } : null;
}
