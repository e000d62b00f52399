// Sets the theme before the first paint. The choice is kept in this browser;
// without one, the system's preference holds (see style.css).
(() => {
  let choice = null;
  try { choice = localStorage.getItem('tonnage.theme'); } catch { /* storage may be off */ }
  if (choice === 'light' || choice === 'dark') document.documentElement.dataset.theme = choice;
})();
