/** Returns how many characters at the end of `text` are a proper prefix of `marker`. */
export function findPartialMarkerLength(text: string, marker: string): number {
  for (let length = Math.min(text.length, marker.length - 1); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length;
  }
  return 0;
}

/**
 * Returns the length of the text that certainly precedes `marker`. The rest may be the beginning of the marker, or
 * white space before the marker. That white space is dropped if the marker follows.
 */
export function findLengthBeforeMarker(text: string, marker: string): number {
  return text.slice(0, text.length - findPartialMarkerLength(text, marker)).trimEnd().length;
}
