/**
 * Text of a model, fit for a terminal: line breaks and tabs stay, every other control character goes, so
 * that an answer cannot move the cursor, recolour or rename the window, or fill the clipboard.
 */
export function stripControlCharacters(text: string): string {
  // oxlint-disable-next-line no-control-regex -- it is control characters that have to go
  return text.replace(/[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g, "");
}
