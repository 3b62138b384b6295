// Numbers that can be read, but are hardly meant: as the Python package doubts them.

const MOST_PLACES = 4; // by which a decimal point may have slipped
const MARGIN_OF_DATES = 366; // in days: people are asked after training, and dates move on

function isPlausible({ seen: [low, high], low: least, high: most, kind }, spread, number) {
  const isDate = kind === "date";
  const beyond = Math.max((high - low) / 2, isDate ? MARGIN_OF_DATES : 0, low === high ? spread : 0);
  const lowest = low >= 0 && !isDate ? Math.max(low - beyond, 0) : low - beyond;
  return (number >= lowest || least !== null) && (number <= high + beyond || most !== null);
}

/** The number with the decimal point or the sign where it may have been meant: the smallest slip alone. */
function slips({ seen: [low, high], kind }, number) {
  if (kind === "date") return [];
  const signs = number < 0 && low >= 0 ? [number, -number] : [number];
  for (let places = 0; places <= MOST_PLACES; places++) {
    const powers = places ? [places, -places] : [0];
    const found = signs.flatMap(sign => powers.map(power => Number((sign * 10 ** power).toPrecision(12)))).filter(meant => low <= meant && meant <= high);
    if (found.length) return found;
  }
  return [];
}

/** Why a person hardly means this number: {suggestions}, as they would be typed; null if it is plausible. */
export function doubtAbout(question, spread, number) {
  return !question.seen || isPlausible(question, spread, number) ? null : { suggestions: slips(question, number).map(String) };
}
