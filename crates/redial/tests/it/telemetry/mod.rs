mod meter;
mod meter_http;
mod publish;
mod scrape;
mod storm;
