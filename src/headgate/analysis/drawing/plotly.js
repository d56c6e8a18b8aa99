// Plotly is large: it is fetched once, from this server, when the first figure needs it. A report holds it already.

let loading = window.Plotly ? Promise.resolve(window.Plotly) : null;

export function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      loading = null;
      reject(new Error("The figures cannot be drawn: plotly.min.js did not load."));
    };
    document.head.append(script);
  });
  return loading;
}
