import { AssistantError } from "../assistant-error.ts";

const ID = /^[a-z0-9][a-z0-9_-]{0,31}$/;
const NAME_CHARACTERS_MAX = 100;

/**
 * Throws `invalid_request` if the text cannot be a provider's id. The id is part of `remote:<provider>:<model>`, so it
 * must not contain a colon.
 */
export function validateProviderId(id: string): string {
  if (ID.test(id)) return id;
  throw new AssistantError(
    "invalid_request",
    `${JSON.stringify(id.slice(0, 64))} cannot be a provider's id: an id has 1 to 32 lower-case letters, digits, - and _, and begins with a letter or a digit`,
    { param: "id" },
  );
}

/** Throws `invalid_request` if the name cannot be displayed on one line. */
export function validateDisplayName(name: string): string {
  const trimmed = name.trim();
  if (
    trimmed !== "" &&
    trimmed.length <= NAME_CHARACTERS_MAX &&
    !/[\p{C}\p{Zl}\p{Zp}]/u.test(trimmed)
  )
    return trimmed;
  throw new AssistantError(
    "invalid_request",
    `a provider's name is one line of 1 to ${NAME_CHARACTERS_MAX} characters`,
    { param: "display_name" },
  );
}
