/** How many characters at the end of `text` may be the beginning of `marker`. */
export function findPartialMarkerLength(text: string, marker: string): number {
  for (let length = Math.min(text.length, marker.length - 1); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length;
  }
  return 0;
}

/**
 * Where the text ends that is certain to stand before `marker`: what may be a part of the marker is held
 * back, and so is blank space before it, which goes away if the marker comes.
 */
export function findLengthBeforeMarker(text: string, marker: string): number {
  return text.slice(0, text.length - findPartialMarkerLength(text, marker)).trimEnd().length;
}
