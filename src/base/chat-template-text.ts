/**
 * Returns true if a setting is the text of a chat template, which contains a tag of the template language; otherwise it
 * is the path of a file.
 */
export function isChatTemplateText(setting: string): boolean {
  return /\{[{%]/.test(setting);
}
