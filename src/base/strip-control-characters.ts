/**
 * Makes text from a model safe for a terminal: keeps line breaks and tabs and removes all other control characters,
 * so that an answer cannot move the cursor, change colours or the window title, or fill the clipboard.
 */
export function stripControlCharacters(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what it removes
  return text.replace(/[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g, "");
}
