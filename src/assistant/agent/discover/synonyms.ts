import { tokenize } from "../../../base/tokenize.ts";

/**
 * Synonyms of everyday verbs and nouns, for which users and tools often choose different words. Technical terms are not
 * included.
 */
const synonymGroups = [
  "create add new make write compose",
  "delete remove erase discard throw drop",
  "list show display view see",
  "find search look lookup locate where",
  "change edit update modify set adjust",
  "start run launch begin",
  "stop halt end quit",
  "open visit go",
  "move put transfer",
  "copy duplicate clone",
  "rename name call",
  "send write message",
  "reply answer respond",
  "cancel abort call",
  "schedule plan book arrange",
  "meeting appointment event",
  "mail email message",
  "picture photo image",
  "song track music",
  "folder directory",
  "task todo",
  "reminder remind remember",
  "bookmark save remember",
  "silence mute quiet",
  "wifi wireless network",
  "computer machine",
  "person contact people",
  "light lamp",
  "heating temperature warm cold heat",
  "directions route way",
  "complete finish done",
  "postpone reschedule delay",
  "trash bin",
  "junk spam",
];

/** Maps a stem to the stems of its synonyms. */
const synonymsByStem: ReadonlyMap<string, ReadonlySet<string>> = indexByStem();

export function findSynonyms(term: string): ReadonlySet<string> {
  return synonymsByStem.get(term) ?? new Set();
}

function indexByStem(): Map<string, Set<string>> {
  const map = new Map<string, Set<string>>();
  for (const group of synonymGroups) {
    const stems = tokenize(group);
    for (const stem of stems) {
      const others = map.get(stem) ?? new Set();
      for (const other of stems) if (other !== stem) others.add(other);
      map.set(stem, others);
    }
  }
  return map;
}
